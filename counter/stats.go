package counter

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/schema"
)

// BlockInfo describes one block.
type BlockInfo struct {
	Counter   *schema.Counter
	Group     int    // of hash slots; -1: the store is not made of groups
	Hidden    bool   // clients may not touch the group: see Groups.Own
	Lo, Hi    uint64 // range of mids, Hi exclusive
	Open      bool   // the last block: it has no upper end yet
	Tier      string // TierHot or TierCold
	Items     int
	Slots     int // places for items
	Overflows int // values in the overflow table
	Bytes     int // memory of the block; of a cold one: of its overlay
	Overlay   int // rows in the overlay of a cold block
	FileBytes int64
	Index     int64  // of a cold one: memory of the file's index
	File      string // base name
	Layout    *schema.Layout
	Current   bool // has the columns that the schema says now
	Lost      bool // of a cold block: its file is missing or cannot be used
	// Uses are operations: of a hot block since it is one, modulo 2^32; of a cold one those of about the last second and a
	// half, as they are halved each second.
	Uses uint32
	Idle int64 // seconds since the last one, coarse; -1: there was none since the start
}

// BlockPlace is where a walk over the blocks of a counter goes on. The zero value is its begin.
type BlockPlace struct {
	group int
	lo    uint64
}

// Next is the place behind the block, among those of its counter.
func (i *BlockInfo) Next() BlockPlace {
	if i.Open {
		return BlockPlace{max(0, i.Group) + 1, 0}
	}
	return BlockPlace{max(0, i.Group), i.Hi}
}

// Blocks calls f for every block, counter by counter, group by group, in the order of their ranges, until f returns
// false. REQUIRES the batch to be open.
func (b *Batch) Blocks(f func(BlockInfo) bool) {
	for _, def := range b.Schema().Counters() {
		if !b.BlocksFrom(def, BlockPlace{}, f) {
			return
		}
	}
}

// BlocksFrom calls f for the blocks of a counter, from a place on, until f returns false, which it returns: who walks
// many blocks ends the batch now and then, and goes on where it was. REQUIRES the batch to be open.
func (b *Batch) BlocksFrom(c *schema.Counter, from BlockPlace, f func(BlockInfo) bool) bool {
	for sp, at := b.s.spaces[c.ID], from; at.group < len(sp); {
		ks := sp[at.group]
		blk := ks.Lock(at.lo)
		info := b.info(ks, blk)
		blk.Mu.Unlock()
		if at = info.Next(); !f(info) {
			return false
		}
	}
	return true
}

// BlockOf describes the block that holds, or would hold, an item. REQUIRES the batch to be open.
func (b *Batch) BlockOf(c *schema.Counter, mid uint64) (info BlockInfo, found bool) {
	ks := b.s.spaces[c.ID].Of(mid)
	blk := ks.Lock(mid)
	defer blk.Mu.Unlock()
	b.noteSeen(blk.Logged)
	found, _ = ks.Has(blk, mid)
	return b.info(ks, blk), found
}

// info describes blk. REQUIRES blk.Mu held.
func (b *Batch) info(ks *block.Keyspace, blk *block.Block) BlockInfo {
	info := blockInfo(ks, blk)
	if info.Group = -1; b.s.slotGroups {
		info.Group, info.Hidden = int(ks.Group), b.s.hidden(ks)
	}
	if info.Idle = -1; blk.Used > 0 {
		info.Idle = max(0, b.s.tiers.clock.Load()-blk.Used)
	}
	return info
}

// blockInfo describes b. REQUIRES b.Mu held.
func blockInfo(ks *block.Keyspace, b *block.Block) BlockInfo {
	t := &b.Tab
	info := BlockInfo{
		Counter: ks.Def, Lo: b.Lo, Hi: b.Hi, Open: b.Open(), Tier: TierHot,
		Items: b.Items(), Slots: t.Slots(), Overflows: t.Overflows(), Bytes: len(b.Span.Data),
		Layout: t.Layout(), Current: ks.Current(b), Uses: b.Work,
	}
	if b.Cold == nil {
		info.Bytes = t.Bytes()
	} else {
		info.Tier, info.Overlay, info.FileBytes, info.File = TierCold, t.Len(), b.Cold.File.Stat().Bytes, b.Cold.Entry.Name
		info.Index, info.Lost = b.Cold.File.Stat().IndexBytes, b.Cold.File.Err() != nil
		if info.Layout == nil {
			info.Layout = ks.Over
		}
	}
	return info
}

// Memory is the memory handed out to blocks, in bytes: without the cache of pages and partial rows, see TierStats.
func (a Admin) Memory() int64 { return a.s.arena.Used() }

// LogStats tells about the log: see persist.Stats. The zero value where data is in memory only.
func (a Admin) LogStats() persist.Stats {
	if a.s.log == nil {
		return persist.Stats{}
	}
	return a.s.log.Stats()
}

// Durable tells whether data is kept on disk.
func (s *Store) Durable() bool { return s.log != nil }

// SetAppendFsync changes Options.AppendFsync: when the log is synced. Nothing where data is in memory only.
func (a Admin) SetAppendFsync(p SyncPolicy) {
	if a.s.log == nil {
		return
	}
	if err := a.s.repl.boot.policy(a.s, p); err != nil { // the stricter one goes on
		a.s.opts.Logger.Error("appendfsync stays always: cannot record that changes may be acknowledged before they are durable", "error", err)
		return
	}
	a.s.log.SetPolicy(p)
}

// Ready is nil while changes are taken, else the reason why not.
func (s *Store) Ready() error {
	if s.log == nil {
		return nil
	}
	return s.log.Ready()
}

// DiskHangs tells whether a write or a sync of the log has not ended for 2 s. Changes are refused meanwhile.
func (s *Store) DiskHangs() bool { return s.log != nil && s.log.Hangs() }

// takesChanges tells why no change may be made, or nil. REQUIRES: there is a log.
func (s *Store) takesChanges() error {
	if s.replica.Load() {
		return ErrReplica
	}
	if s.repl.changing.Load() {
		// A primary that has to write down whose log it is, as the disk took no writes before, stays a primary.
		if err := s.log.Ready(); err != nil {
			return err
		}
		return ErrReplica
	}
	if err := s.repl.refusal.Load(); err != nil {
		return *err
	}
	return s.log.Ready()
}

// Path is the data directory; empty where data is in memory only.
func (s *Store) Path() string {
	if s.dir == nil {
		return ""
	}
	return s.dir.Path()
}

// Tick does once what the log's background work does now and then. It is for stores with Options.Manual.
func (s *Store) Tick() {
	if s.log != nil {
		s.log.Tick()
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
	return TierStats{
		Cache: t.cache.Stats(), MaxMemory: t.limit.Load(), Memory: t.memory(a.s), Full: t.full.Load(),
		ReadErrors: t.readErrors.Load(), Demotions: t.demotions.Load(), Promotions: t.promotions.Load(), Rewrites: t.rewrites.Load(),
		Failed: t.failed.Load(), Refused: t.refused.Load(), Written: t.written.Load(), Fresh: t.fresh.Load(),
		Demoting: time.Duration(t.spent.demoting.Load()), Promoting: time.Duration(t.spent.promoting.Load()),
		Rewriting: time.Duration(t.spent.rewriting.Load()),
		Broken:    t.broken.Load(), Scrubs: t.scrubs.Load(), ScrubErrors: t.scrubErrors.Load(), Scrubbing: t.scrubbing.Load(),
	}
}

// Tiers counts. REQUIRES the batch to be open.
func (b *Batch) Tiers() TierStats {
	st := b.s.Admin().TierCounts()
	for ks := range b.s.keyspaces {
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
