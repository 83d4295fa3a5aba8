package counter

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// SyncPolicy says when an acknowledged change is safe from a power failure: see package persist.
type SyncPolicy = persist.SyncPolicy

// Sync policies, as Redis's appendfsync has them. kill -9 loses nothing in any of them.
const (
	SyncEverySec = persist.SyncEverySec
	SyncAlways   = persist.SyncAlways
	SyncNo       = persist.SyncNo
)

// Options of a store. The zero value of each field is its default.
type Options struct {
	// BlockItems is the number of items at which a block is sealed or split: 16..512 Ki, default 64 Ki, of a store made
	// of groups 16 Ki. Larger blocks save little memory; sealing one stops its writers for about 60 ns an item.
	BlockItems int

	// SlotGroups makes a new store keep its posts by group of hash slots (package slot), so that one group can be dropped, and
	// moved, without the others being read. A directory stays what it was made as: see Store.SlotGroups.
	SlotGroups bool

	// HashSeed makes the places of items unforeseeable for clients that choose mids. Default: random.
	HashSeed uint64

	// MaxMemory bounds what blocks, overlays and decoded pages take together, in bytes: above it the coldest ranges are
	// written to files, from which they go on being served. 0: no limit. At least 8 MiB.
	MaxMemory int64

	// AppendFsync is when the log is made durable. Default: every second.
	AppendFsync SyncPolicy

	// RetainBytes is how much log is kept even where recovery does not need it, in bytes on disk: for replicas that come
	// back. A restore to a moment starts from a snapshot, so it reaches no further for that. Default: none.
	RetainBytes uint64

	// FeedRetainBytes is how much log is kept for cursors of the feed of changes, from the oldest of them on, in bytes on disk. A cursor
	// that falls further behind loses its log. Default: none.
	FeedRetainBytes uint64

	// CompressLog compresses the retained log below the newest snapshot in the background, if RetainBytes is not 0. Then the
	// same bytes on disk keep several times the log.
	CompressLog bool

	// SnapshotGrowth is how many bytes the log grows until a snapshot is made by itself: at least 1 MiB, default 64
	// MiB, and never less than the snapshot's size; negative: never.
	SnapshotGrowth int64

	// SegmentBytes is the size of a log segment, at least 512 bytes. Old log is removed one segment at a time. Default: 1 MiB at
	// first, and up to 64 MiB.
	SegmentBytes int64

	// Producers bound the memory that makes numbered changes happen once: see Once.
	Producers ProducerLimits

	// FS is the file system, by default the real one.
	FS vfs.FS

	// Logger is told what happens. Default: nobody.
	Logger *slog.Logger

	// Progress, if set, is called while Open reads, with a name of the data, the bytes read and all bytes.
	Progress func(what string, done, total uint64)

	// Elected is a store whose role others decide, one term at a time: it rests when it is opened, as a replica of nobody
	// whatever it was, and begins a term by Replication.LeadAt alone. Acknowledgements then wait for Replication.Confirm.
	Elected bool

	// BootID names the time since the machine was switched on, for Elected. Default: the kernel's, where there is one.
	BootID string

	// Now is the clock, by default time.Now. Tests have clocks that differ and that are set.
	Now func() time.Time

	// Manual starts no background work for the log and snapshots: for tests that replay from a seed.
	Manual bool

	// Listing, if set, is called while a top list is built: before each part of the look at all posts, and before those that it found
	// are entered. Tests have it wait, so that posts change meanwhile.
	Listing func()

	// giveUp opens the store without the image of a last block, too: it is about to be given up.
	giveUp bool

	// probes is hot.Config.Probes: tests have tables that are full early.
	probes uint
}

func (o Options) withDefaults() (Options, error) {
	if err := core.CheckBlockItems(o.BlockItems); err != nil {
		return o, err
	}
	if o.MaxMemory != 0 && o.MaxMemory < MinMaxMemory {
		return o, fmt.Errorf("counter: MaxMemory: got %d, want 0 or at least %d", o.MaxMemory, MinMaxMemory)
	}
	if o.SegmentBytes != 0 && o.SegmentBytes < 512 {
		return o, fmt.Errorf("counter: SegmentBytes: got %d, want 0 or at least 512", o.SegmentBytes)
	}
	if o.SnapshotGrowth == 0 {
		o.SnapshotGrowth = 64 << 20
	}
	if o.SnapshotGrowth > 0 && o.SnapshotGrowth < 1<<20 {
		return o, fmt.Errorf("counter: SnapshotGrowth: got %d, want at least %d, or negative for never", o.SnapshotGrowth, 1<<20)
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, uint64, uint64) {}
	}
	return o, nil
}

// config is the part of the options that concerns the data.
func (o *Options) config() core.Config {
	return core.Config{FS: o.FS, Logger: o.Logger, Manual: o.Manual, Elected: o.Elected, BlockItems: o.BlockItems, HashSeed: o.HashSeed, Probes: o.probes,
		SlotGroups: o.SlotGroups, Producers: o.Producers, Now: o.Now, Listing: o.Listing}
}

// MinMaxMemory is the least MaxMemory: two open blocks and the block being written must fit.
const MinMaxMemory = 8 << 20

// ParseSyncPolicy reads always, everysec or no.
func ParseSyncPolicy(s string) (SyncPolicy, error) { return persist.ParseSyncPolicy(s) }

// bootID names the time since the machine's start; empty where nothing tells.
func (o *Options) bootID() string {
	if o.BootID != "" {
		return o.BootID
	}
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id[:min(len(id), 64)]))
}
