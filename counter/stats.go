package counter

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
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
	if err := a.s.repl.boot.policy(p); err != nil { // the stricter one goes on
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

// Tick does once what the log's background work does now and then. It is for stores with Options.Manual.
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

// tierTimes are nanoseconds that changes of tier took which were made.
type tierTimes struct{ demoting, rewriting, promoting atomic.Int64 }

// TierStats are the totals of INFO's section tiers.
type TierStats struct {
	HotItems, ColdItems, OverlayItems int64
	HotBlocks, ColdBlocks             int64
	HotBytes, ColdBytes, OverlayBytes int64 // memory, files, memory
	IndexBytes                        int64 // memory of the page indexes
	Cache                             coldstore.CacheStats
	MaxMemory, Memory                 int64
	Full                              bool
	ReadErrors, Demotions, Promotions int64
	Rewrites, Failed, Refused         int64
	Demoting, Promoting, Rewriting    time.Duration // that those took together
	Written, Fresh                    int64
	Broken                            int64 // cold files that could not be opened at the start
	Scrubs, ScrubErrors               int64 // cold files verified in the background; files of all kinds found damaged then
	Scrubbing                         bool  // they and the images are being verified
}

// TierCounts are the TierStats that need no walk over all blocks: all but those of items, blocks and bytes of tiers, which
// are 0.
func (a Admin) TierCounts() TierStats {
	t := &a.s.tiers
	st := TierStats{
		Cache: a.s.data.Cache.Stats(), MaxMemory: t.limit.Load(), Memory: t.memory(), Full: a.s.data.Full.Load(),
		ReadErrors: a.s.data.ReadErrors.Load(), Demotions: t.demotions.Load(), Promotions: t.promotions.Load(), Rewrites: t.rewrites.Load(),
		Failed: t.failed.Load(), Refused: t.refused.Load(), Written: t.written.Load(), Fresh: t.fresh.Load(),
		Demoting: time.Duration(t.spent.demoting.Load()), Promoting: time.Duration(t.spent.promoting.Load()),
		Rewriting: time.Duration(t.spent.rewriting.Load()),
		Broken:    a.s.data.Broken.Load(),
	}
	if c := a.s.scrubber; c != nil {
		st.Scrubs, st.ScrubErrors, st.Scrubbing = c.verified.Load(), c.errors.Load(), c.running.Load()
	}
	return st
}

// Tiers is TierCounts and the sums over all blocks. REQUIRES b to be open.
func (a Admin) Tiers(b *Batch) TierStats {
	st := a.TierCounts()
	for ks := range core.DataOf(b).Keyspaces {
		for lo := uint64(0); lo < hot.EndMid; {
			blk := ks.Lock(lo)
			if blk.Cold == nil {
				st.HotBlocks++
				st.HotItems += int64(blk.Tab.Len())
				st.HotBytes += int64(blk.Tab.Bytes())
			} else {
				f := blk.Cold.File.Stat()
				st.ColdBlocks++
				st.ColdItems += int64(blk.Items())
				st.ColdBytes += f.Bytes
				st.IndexBytes += f.IndexBytes
				st.OverlayItems += int64(blk.Tab.Len())
				st.OverlayBytes += int64(len(blk.Span.Data))
			}
			lo = blk.Hi
			blk.Mu.Unlock()
		}
	}
	return st
}
