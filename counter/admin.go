package counter

import (
	"fmt"
	"time"

	"github.com/counterd/counterd/counter/internal/replica"
	"github.com/counterd/counterd/counter/internal/tier"
	"github.com/counterd/counterd/counter/internal/topbuild"
	"github.com/counterd/counterd/persist"

	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Admin is a store's side for the operator of a server: metrics of its parts, options that change while it is open, tiers by
// hand, digests and archives. Batch has the methods about blocks: Blocks, BlockOf, Tiers. A program that embeds a store does
// not need it.
//
// All methods are safe for concurrent use. Two metrics need not be of the same moment; after Close they mean nothing.
type Admin struct{ s *Store }

// Admin is the store's side for the operator of a server.
func (s *Store) Admin() Admin { return Admin{s} }

// FS is the file system of the data directory.
func (a Admin) FS() vfs.FS { return a.s.opts.FS }

// Disk tells about the room on disk, which is looked at once a second. The zero value where data is in memory only.
func (a Admin) Disk() DiskStats { return a.s.space.Last() }

// SetRetain changes Options.RetainBytes, in bytes on disk, from the next look at the log on.
func (a Admin) SetRetain(bytes uint64) { a.s.retention.SetBytes(bytes) }

// SetFeedRetain changes Options.FeedRetainBytes, in bytes on disk, from the next look at the log on.
func (a Admin) SetFeedRetain(bytes uint64) { a.s.retention.SetFeedBytes(bytes) }

// SetCompressLog changes Options.CompressLog. Packed segments stay packed.
func (a Admin) SetCompressLog(on bool) { a.s.packing.SetOn(on) }

// Scrub has the images, the log and the cold files verified now, in the background, and not when they are due, as behind a
// disk's trouble. ErrScrubbing: they are being verified. Other errors: ErrInMemory.
func (a Admin) Scrub() error {
	if a.s.scrubber == nil {
		return ErrInMemory
	}
	return a.s.scrubber.Begin()
}

// Demote writes the block that holds mid to a cold file; of a cold block, merges the overlay into a new file. The last
// block stays hot: ErrNoBlock. The error may also be ErrNoKey, where there is no such counter, ErrInMemory, ErrClosed,
// ErrCold, or an error of the disk; the block is then as it was. Writers of the block wait for some ms.
func (a Admin) Demote(counterName string, mid uint64) error {
	ks, err := a.keyspaceFor(counterName, mid)
	if err != nil {
		return err
	}
	return a.s.tiers.Demote(ks, mid)
}

// Promote brings the cold block that holds mid back to memory, whose readers and writers wait meanwhile, for some ms.
// ErrNoBlock: it is not cold. Other errors as Demote, and ErrNoMemory.
func (a Admin) Promote(counterName string, mid uint64) error {
	ks, err := a.keyspaceFor(counterName, mid)
	if err != nil {
		return err
	}
	return a.s.tiers.Promote(ks, mid)
}

// keyspaceFor finds the keyspace of a counter with files that has a mid.
func (a Admin) keyspaceFor(name string, mid uint64) (*block.Keyspace, error) {
	s := a.s
	if s.data.Dir == nil {
		return nil, ErrInMemory
	}
	s.data.Gate.RLock()
	defer s.data.Gate.RUnlock()
	if s.data.Closed {
		return nil, ErrClosed
	}
	def := s.data.Schema.Load().Counter(name)
	if def == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoKey, name)
	}
	return s.data.Spaces[def.ID].Of(mid), nil
}

// SetMaxMemory changes Options.MaxMemory, in bytes; 0 is none. It takes effect in the background.
func (a Admin) SetMaxMemory(n int64) {
	a.s.tiers.SetLimit(n)
}

// Repacks tells how many blocks were packed anew in the background since the start, for columns that came or went or
// for better widths, and how long that took.
func (a Admin) Repacks() (blocks int64, took time.Duration) {
	return a.s.repacker.Totals()
}

// TopLists counts the top lists of columns.
func (a Admin) TopLists() TopListStats { return a.s.tops.Stats() }

// Now is the time as the store's clock has it.
func (a Admin) Now() time.Time { return a.s.data.Config.Now() }

// Newest returns the nth largest mid of a counter's posts below end, or false if there are fewer. end is at most schema.MaxMid+1. It reads the newest
// blocks below end, and a file where they have fewer. The error is ErrClosed.
func (a Admin) Newest(def *schema.Counter, n int, end uint64) (mid uint64, ok bool, err error) {
	return a.s.data.Newest(def, n, end)
}

// DropSteps are the sets of groups of hash slots that a range of mids is dropped in: see Whole.DropRange.
func (a Admin) DropSteps() []slot.Set { return a.s.data.DropSteps() }

// Usage counts all blocks, counter by counter: 60 to 100 ns a block. A counter that is dropped meanwhile may be there in
// part.
func (a Admin) Usage() []Usage { return tier.CountAll(&a.s.data) }

// ProducerStats counts the remembered producers and results.
func (a Admin) ProducerStats() ProducerStats {
	a.s.data.Producers.Mu.Lock()
	defer a.s.data.Producers.Mu.Unlock()
	return a.s.data.Producers.Table.Stats()
}

// SetProducerLimits changes Options.Producers. Producers above the new limits stay until they are idle and a
// place is needed.
func (a Admin) SetProducerLimits(l ProducerLimits) {
	a.s.data.Producers.Mu.Lock()
	defer a.s.data.Producers.Mu.Unlock()
	a.s.data.Producers.Table.SetLimits(l.WithDefaults())
}

// Snapshots tells about snapshots. The zero value where data is in memory only.
func (a Admin) Snapshots() SnapshotStats {
	if a.s.snapshots == nil {
		return SnapshotStats{}
	}
	return a.s.snapshots.Totals()
}

// Archive prepares an archive, which must be closed. It reads all images of the newest snapshot. The error is
// ErrInMemory, format.ErrGone where there is no snapshot and the log does not begin at 0, or names the file that could not be
// read.
func (a Admin) Archive() (*Archive, error) {
	return durable.NewArchive(&a.s.data, a.s.pins, a.s.repl.Lineage)
}

// TierCounts are the TierStats that need no walk over all blocks: all but those of items, blocks and bytes of tiers, which
// are 0.
func (a Admin) TierCounts() TierStats {
	st := a.s.tiers.Totals()
	if c := a.s.scrubber; c != nil {
		n := c.Totals()
		st.Scrubs, st.ScrubErrors, st.ScrubMended, st.ScrubRounds, st.Scrubbing, st.BrokenLog = n.Good, n.Bad, n.Mended, n.Rounds, n.Under, int64(n.Broken)
	}
	return st
}

// Tiers is TierCounts and the sums over all blocks. REQUIRES b to be open.
func (a Admin) Tiers(b *Batch) TierStats {
	st := a.TierCounts()
	st.AddBlocks(core.DataOf(b))
	return st
}

// Results of Admin.
type (
	// TierStats are the totals of INFO's section tiers.
	TierStats = tier.TierStats
	// Usage is the memory and the files of one counter's posts.
	Usage = tier.Usage
	// TopListStats counts the top lists of columns.
	TopListStats = topbuild.Stats
)

// Memory is the memory handed out to blocks, in bytes: without the cache of pages and partial rows, see TierStats.
func (a Admin) Memory() int64 { return a.s.data.Arena.Used() }

// LogStats tells about the log: see persist.Stats. The zero value where data is in memory only.
func (a Admin) LogStats() persist.Stats {
	if a.s.data.Log == nil {
		return persist.Stats{}
	}
	return a.s.data.Log.Stats()
}

// Durable tells whether data is kept on disk.
func (s *Store) Durable() bool { return s.data.Log != nil }

// SetAppendFsync changes Options.AppendFsync: when the log is synced. Nothing where data is in memory only.
func (a Admin) SetAppendFsync(p SyncPolicy) {
	if a.s.data.Log == nil {
		return
	}
	if err := replica.NotePolicy(a.s.repl, p); err != nil { // the stricter one goes on
		a.s.opts.Logger.Error("appendfsync stays always: cannot record that changes may be acknowledged before they are durable", "error", err)
		return
	}
	a.s.data.Log.SetPolicy(p)
}

// Ready is nil while changes are taken, else the reason why not.
func (s *Store) Ready() error {
	if s.data.Log == nil {
		return nil
	}
	return s.data.Log.Ready()
}

// DiskHangs tells whether a write or a sync of the log has not ended for 2 s. Changes are refused meanwhile.
func (s *Store) DiskHangs() bool { return s.data.Log != nil && s.data.Log.Hangs() }

// Path is the data directory; empty where data is in memory only.
func (s *Store) Path() string {
	if s.data.Dir == nil {
		return ""
	}
	return s.data.Dir.Path()
}

// Tick does the log's background work once. It is for stores with Options.Manual.
func (s *Store) Tick() {
	if s.data.Log != nil {
		s.data.Log.Tick()
	}
}

// Tier names of COUNTER.BLOCKS.
const (
	TierHot  = "hot"
	TierCold = "cold"
)
