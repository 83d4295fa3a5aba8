package counter

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// keyspace holds all items of one counter. It has one directory; one by hash slot of the mid would spread a hot head
// block over cores and make slots movable between nodes, and would be chosen here.
type keyspace struct {
	arena      *arena.Arena
	seed       uint64         // of the tables' hashes
	blockItems int            // a block is sealed or split at this many
	ids        *atomic.Uint64 // last block id given

	def    *schema.Counter // guarded by Store.gate
	layout *schema.Layout  // for blocks made from now on; guarded by Store.gate

	dirMu sync.Mutex // taken to replace dir, after a block's lock
	dir   atomic.Pointer[directory]
}

func (s *Store) newKeyspace(def *schema.Counter) (*keyspace, error) {
	ks := &keyspace{arena: &s.arena, seed: s.opts.HashSeed, blockItems: s.opts.BlockItems, ids: &s.blockIDs, def: def, layout: def.Layout}
	b, err := ks.newBlock(0, hot.EndMid, ks.layout, hot.BucketsFor(smallestBlock, 1))
	if err != nil {
		return nil, err
	}
	ks.dir.Store(&directory{los: []uint64{0}, blocks: []*block{b}})
	return ks, nil
}

// free gives all memory back. REQUIRES Store.gate held exclusively.
func (ks *keyspace) free() {
	for _, b := range ks.dir.Load().blocks {
		b.mu.Lock()
		b.dead = true
		ks.arena.Free(b.span)
		b.mu.Unlock()
	}
}

// field returns the index of column c of the counter in t's own layout, or -1 where t was made before the column was.
func (ks *keyspace) field(t *hot.Table, c int16) int {
	if t.Layout() == ks.layout {
		return int(c)
	}
	return t.Layout().Index(ks.def.Columns[c].ID)
}

// value returns column c of the item at slot.
func (ks *keyspace) value(t *hot.Table, slot hot.Slot, c int16) uint64 {
	if f := ks.field(t, c); f >= 0 {
		return t.Get(slot, f)
	}
	return ks.def.Columns[c].Default
}

// len is the number of items. Blocks are counted one after the other, each under its lock.
func (ks *keyspace) len() int {
	n := 0
	for _, b := range ks.dir.Load().blocks {
		b = ks.lockFor(b, b.tab.Lo())
		n += b.tab.Len()
		b.mu.Unlock()
	}
	return n
}
