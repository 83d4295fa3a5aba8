package persist

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// SyncPolicy says what Commit waits for, as Redis's appendfsync does.
type SyncPolicy int32

// Sync policies. In each of them Commit returns only after write(), so that kill -9 loses nothing.
const (
	// SyncEverySec syncs in the background each second; changes are refused when the oldest byte not yet
	// durable is older than 2 s. A power failure loses at most about one second.
	SyncEverySec SyncPolicy = iota

	// SyncAlways makes Commit wait until its bytes are durable. All that wait share one sync.
	SyncAlways

	// SyncNo leaves it to the kernel, but syncs every 4 MiB: bytes not durable are held in memory.
	SyncNo
)

var policyNames = [...]string{SyncEverySec: "everysec", SyncAlways: "always", SyncNo: "no"}

// String returns the name used by CONFIG SET appendfsync.
func (p SyncPolicy) String() string {
	if p < 0 || int(p) >= len(policyNames) {
		return fmt.Sprintf("SyncPolicy(%d)", int32(p))
	}
	return policyNames[p]
}

// ParseSyncPolicy is the inverse of String.
func ParseSyncPolicy(s string) (SyncPolicy, error) {
	for p, name := range policyNames {
		if s == name {
			return SyncPolicy(p), nil
		}
	}
	return 0, fmt.Errorf("appendfsync: want always, everysec or no, got %q", s)
}

// LogOptions are the options of OpenLog. FS and Dir must be given; zero elsewhere means the default.
type LogOptions struct {
	FS  vfs.FS
	Dir string // the data directory; segments are in Dir/log

	// History goes into segment headers and frames. Zero: that of the last segment, or a new random id.
	History format.History

	// Create allows to start a new log at the offset asked for when there is no segment at all.
	Create bool

	// Unwritable allows OpenLog to open an existing log on a disk that takes no writes (full, read-only, failing). The log can
	// then be read, Ready tells why changes are refused, and the log comes into service when the disk is well. Without
	// Unwritable OpenLog fails on such a disk.
	Unwritable bool

	// KnownDurable is an offset that was certainly durable: the newest image has the changes below it. A log that ends before
	// KnownDurable is corrupt, as the same offsets would be given out a second time.
	KnownDurable uint64

	// Torn, if set, is called before a torn tail is cut. Its error is treated as one of keeping the tail.
	Torn func() error

	// Past is the content of HISTORY; nil, or a Past without terms, admits all frames. Recovery.Strange reports the first frame
	// that Past does not admit.
	Past *format.Lineage

	Policy SyncPolicy

	// Sizes of preallocated segments in bytes: the first of a process, doubling up to the largest.
	// Defaults 1 MiB and 64 MiB: a small server stays small, a busy one rotates every few seconds.
	FirstSegmentBytes, SegmentBytes int64

	// MaxUnsynced bounds the bytes in memory that are not durable yet, default 64 MiB. From half of it on Commit
	// waits for the disk, at all of it Ready refuses.
	MaxUnsynced int64

	// SyncEvery is the interval of SyncEverySec, default 1 s. MaxUnsyncedAge is the age of the oldest
	// byte not durable from which on Ready refuses under SyncEverySec, default 2 s. The sync under way has 100 ms more to
	// end, and half of the age where nobody looked in time, as the process stood still.
	SyncEvery, MaxUnsyncedAge time.Duration

	// Now is the clock, default time.Now. Wall time goes into frames; ages use its monotonic reading.
	Now func() time.Time

	// Guard, if set, returns an error while the directory is not this process's any more: Dir.CheckLock.
	Guard func() error

	// packChunk is ChunkLen; tests have small blocks.
	packChunk int

	// Manual starts no goroutine and no timer: the owner calls Tick. For tests that replay from a seed.
	Manual bool

	// Logger is told when the log leaves and enters service; default: nobody is.
	Logger *slog.Logger

	// Progress, if set, is called now and then while OpenLog reads: bytes read and an upper bound of all.
	Progress func(done, total uint64)
}

const (
	defaultFirstSegment   = 1 << 20
	defaultMaxUnsynced    = 64 << 20
	defaultSyncEvery      = time.Second
	defaultMaxUnsyncedAge = 2 * time.Second

	// syncAtBytes makes the background sync start early: it bounds memory and what one sync has to write. With 16 MiB a
	// server that loads 280,000 posts grew by 16 MiB, with 4 MiB it grows by 12; 2 MiB would save 3 more and sync ten
	// times a second and more.
	syncAtBytes = 4 << 20
)

// ensureDefaults replaces zeros.
func (o *LogOptions) ensureDefaults() {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = logfile.DefaultSegment
	}
	if o.FirstSegmentBytes == 0 {
		o.FirstSegmentBytes = min(defaultFirstSegment, o.SegmentBytes)
	}
	if o.MaxUnsynced == 0 {
		o.MaxUnsynced = defaultMaxUnsynced
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = defaultSyncEvery
	}
	if o.MaxUnsyncedAge == 0 {
		o.MaxUnsyncedAge = defaultMaxUnsyncedAge
	}
	if o.packChunk == 0 {
		o.packChunk = format.ChunkLen
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// goesOn tells whether an error at the start is trouble of the disk that the owner lives with.
func (o *LogOptions) goesOn(err error) bool { return o.Unwritable && vfs.IsTrouble(err) }

// validate reports all that is wrong.
func (o *LogOptions) validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("log options: "+format, args...))
		}
	}
	wrong(o.FS == nil, "FS is missing")
	wrong(o.Dir == "", "Dir is missing")
	wrong(o.Policy < 0 || int(o.Policy) >= len(policyNames), "Policy: got %d", o.Policy)
	wrong(o.FirstSegmentBytes < logfile.MinSegment, "FirstSegmentBytes: want at least %d, got %d", logfile.MinSegment, o.FirstSegmentBytes)
	wrong(o.SegmentBytes < o.FirstSegmentBytes, "SegmentBytes: want at least FirstSegmentBytes %d, got %d", o.FirstSegmentBytes, o.SegmentBytes)
	wrong(o.SegmentBytes > logfile.MaxSegment, "SegmentBytes: want at most %d, got %d", logfile.MaxSegment, o.SegmentBytes)
	wrong(o.MaxUnsynced > logfile.MaxSegment/2, "MaxUnsynced: want at most %d, got %d", logfile.MaxSegment/2, o.MaxUnsynced)
	wrong(o.MaxUnsynced < 1<<10, "MaxUnsynced: want at least 1024, got %d", o.MaxUnsynced)
	wrong(o.SyncEvery < 0 || o.MaxUnsyncedAge < 0, "intervals must not be negative")
	return errors.Join(errs...)
}
