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
	id          uint32 // the counter's
	counterName string
	hotFrom     atomic.Uint64 // blocks below are cold: where to begin to look for one to demote

	arena      *arena.Arena
	seed       uint64         // of the tables' seeds: see tableSeed
	tables     atomic.Uint64  // seeds given
	probes     uint           // hot.Config.Probes
	blockItems int            // a block is sealed or split at this many
	ids        *atomic.Uint64 // last block id given

	tiers *tiers // the store's

	def    *schema.Counter // guarded by Store.gate
	layout *schema.Layout  // for blocks made from now on; guarded by Store.gate
	over   *schema.Layout  // the same for overlays of cold blocks: a column of row states before the others

	dirMu sync.Mutex // taken to replace dir, after a block's lock
	dir   atomic.Pointer[directory]
}

func (s *Store) newKeyspace(def *schema.Counter) (*keyspace, error) {
	ks := &keyspace{id: def.ID, counterName: def.Name, arena: &s.arena, seed: s.opts.HashSeed, probes: s.opts.probes, blockItems: s.opts.BlockItems, ids: &s.blockIDs,
		tiers: &s.tiers}
	if err := ks.define(def); err != nil {
		return nil, err
	}
	b, err := ks.newBlock(hot.Config{Hi: hot.EndMid, Buckets: hot.BucketsFor(smallestBlock, 1), Layout: ks.layout})
	if err != nil {
		return nil, err
	}
	ks.dir.Store(&directory{los: []uint64{0}, blocks: []*block{b}})
	return ks, nil
}

// newKeyspaces makes an empty keyspace for each of several counters, or none.
func (s *Store) newKeyspaces(defs []*schema.Counter) ([]*keyspace, error) {
	made := make([]*keyspace, 0, len(defs))
	for _, def := range defs {
		ks, err := s.newKeyspace(def)
		if err != nil {
			for _, ks := range made {
				ks.free()
			}
			return nil, err
		}
		made = append(made, ks)
	}
	return made, nil
}

// serves tells whether ks is in use: it was not cleared or dropped. REQUIRES Store.gate held; a keyspace that is not served must not
// be searched, as all its blocks are dead.
func (s *Store) serves(ks *keyspace) bool {
	return !s.closed && int(ks.id) < len(s.spaces) && s.spaces[ks.id] == ks
}

// define puts a definition of the counter in force. REQUIRES Store.gate held exclusively.
func (ks *keyspace) define(def *schema.Counter) error {
	if ks.layout != nil && ks.layout.Equal(def.Layout) {
		ks.def = def
		return nil
	}
	over, err := overlayLayout(def)
	if err != nil {
		return err
	}
	ks.def, ks.layout, ks.over = def, def.Layout, over
	return nil
}

// overlayLayout is the layout of overlays: one column more than the counter has.
func overlayLayout(def *schema.Counter) (*schema.Layout, error) {
	return schema.NewLayout(append([]schema.Column{{ID: stateColumn, Hint: stateBits, Max: stateBits}}, def.Columns...))
}

// free gives all memory back. REQUIRES Store.gate held exclusively.
func (ks *keyspace) free() {
	for _, b := range ks.dir.Load().blocks {
		b.mu.Lock()
		b.dead = true
		ks.arena.Free(b.span)
		ks.dropPartial(b)
		ks.tiers.retire(b)
		b.mu.Unlock()
	}
}

// len is the number of items, for b to tell. Blocks are counted one after the other, each under its lock.
func (ks *keyspace) len(batch *Batch) int {
	n := 0
	for _, b := range ks.dir.Load().blocks {
		b = ks.lockFor(b, b.lo)
		n += b.items()
		batch.show(b.logged)
		b.mu.Unlock()
	}
	return n
}
