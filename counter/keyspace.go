package counter

import (
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// keyspace holds all items of one counter: what a tablet or a table is elsewhere. Its parts:
//
//	columns   what the schema says, and how rows of older blocks answer it     columns.go
//	ranges    the directory: which block holds a mid                           directory.go
//	builder   memory, seeds and sizes of new blocks                            builder.go
//
// What it adds is access to items, whatever the tier of their block (item.go, overlay.go, partial.go), and the change
// of blocks into others (reshape.go, widths.go, rewrite.go).
//
// It has one directory; one by hash slot of the mid would spread a hot head block over cores and make slots movable
// between nodes, and would be chosen here.
type keyspace struct {
	id          uint32 // the counter's
	counterName string
	hotFrom     atomic.Uint64 // blocks below are cold: where to begin to look for one to demote

	columns
	ranges
	builder

	tiers *tiers // the store's
}

func (s *Store) newKeyspace(def *schema.Counter) (*keyspace, error) {
	ks := &keyspace{id: def.ID, counterName: def.Name, tiers: &s.tiers}
	ks.arena, ks.ids, ks.seed, ks.probes, ks.blockItems = &s.arena, &s.blockIDs, s.opts.HashSeed, s.opts.probes, s.opts.BlockItems
	if err := ks.define(def); err != nil {
		return nil, err
	}
	c := hot.Config{Hi: hot.EndMid, Buckets: hot.BucketsFor(smallestBlock, 1), Layout: ks.layout}
	b, err := ks.newBlock(c, ks.layout)
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

// serves tells whether ks is in use: it was not cleared or dropped. REQUIRES Store.gate held; a keyspace that is not
// served must not be searched, as all its blocks are dead.
func (s *Store) serves(ks *keyspace) bool {
	return !s.closed && int(ks.id) < len(s.spaces) && s.spaces[ks.id] == ks
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
