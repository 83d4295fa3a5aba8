package counter

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/schema"
)

// Reader lists and describes posts and blocks as a batch sees them, without knowing their keys. REQUIRES the batch to be
// open while it is used; and Commit, or Defer, before its results are sent.
type Reader struct {
	b *Batch
	s *core.Data
}

// NewReader returns a reader of the state that b sees.
func NewReader(b *Batch) Reader { return Reader{b, core.DataOf(b)} }

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
func (r Reader) Blocks(f func(BlockInfo) bool) {
	for _, def := range r.b.Schema().Counters() {
		if !r.BlocksFrom(def, BlockPlace{}, f) {
			return
		}
	}
}

// BlocksFrom calls f for the blocks of a counter, from a place on, until f returns false, which it returns: who walks
// many blocks ends the batch now and then, and goes on where it was. REQUIRES the batch to be open.
func (r Reader) BlocksFrom(c *schema.Counter, from BlockPlace, f func(BlockInfo) bool) bool {
	for sp, at := r.s.Spaces[c.ID], from; at.group < len(sp); {
		ks := sp[at.group]
		blk := ks.Lock(at.lo)
		info := r.info(ks, blk)
		blk.Mu.Unlock()
		if at = info.Next(); !f(info) {
			return false
		}
	}
	return true
}

// BlockOf describes the block that holds, or would hold, an item. REQUIRES the batch to be open.
func (r Reader) BlockOf(c *schema.Counter, mid uint64) (info BlockInfo, found bool) {
	ks := r.s.Spaces[c.ID].Of(mid)
	blk := ks.Lock(mid)
	defer blk.Mu.Unlock()
	core.NoteSeen(r.b, blk.Logged)
	found, _ = ks.Has(blk, mid)
	return r.info(ks, blk), found
}

// info describes blk. REQUIRES blk.Mu held.
func (r Reader) info(ks *block.Keyspace, blk *block.Block) BlockInfo {
	info := blockInfo(ks, blk)
	if info.Group = -1; r.s.SlotGroups {
		info.Group, info.Hidden = int(ks.Group), r.s.Hidden(ks)
	}
	if info.Idle = -1; blk.Used > 0 {
		info.Idle = max(0, r.s.Clock.Load()-blk.Used)
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
