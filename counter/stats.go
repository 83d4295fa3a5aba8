package counter

import "github.com/counterd/counterd/schema"

// BlockInfo describes one block.
type BlockInfo struct {
	Counter   *schema.Counter
	Lo, Hi    uint64 // range of mids, Hi exclusive
	Open      bool   // the last block: it has no upper end yet
	Items     int
	Slots     int // places for items
	Overflows int // values in the overflow table
	Bytes     int // memory of the block
	Layout    *schema.Layout
	Current   bool // packed as the schema says now
}

// Blocks calls f for every block, counter by counter, in the order of their ranges, until f returns false.
// REQUIRES the batch to be open.
func (b *Batch) Blocks(f func(BlockInfo) bool) {
	for _, def := range b.Schema().Counters() {
		ks := b.s.spaces[def.ID]
		for lo, last := uint64(0), false; !last; {
			blk := ks.lockFor(ks.dir.Load().find(lo), lo)
			info := ks.info(blk)
			lo, last = blk.tab.Hi(), blk.open()
			blk.mu.Unlock()
			if !f(info) {
				return
			}
		}
	}
}

// BlockOf describes the block that holds, or would hold, an item. REQUIRES the batch to be open.
func (b *Batch) BlockOf(c *schema.Counter, mid uint64) (info BlockInfo, found bool) {
	ks := b.s.spaces[c.ID]
	blk := ks.lockFor(ks.dir.Load().find(mid), mid)
	defer blk.mu.Unlock()
	_, found = blk.tab.Find(mid)
	return ks.info(blk), found
}

// info describes b. REQUIRES b.mu held.
func (ks *keyspace) info(b *block) BlockInfo {
	t := &b.tab
	return BlockInfo{
		Counter: ks.def, Lo: t.Lo(), Hi: t.Hi(), Open: b.open(),
		Items: t.Len(), Slots: t.Slots(), Overflows: t.Overflows(), Bytes: t.Bytes(),
		Layout: t.Layout(), Current: t.Layout() == ks.layout,
	}
}

// Memory is the memory handed out to blocks, in bytes.
func (s *Store) Memory() int64 { return s.arena.Used() }
