package counter

import (
	"slices"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// keyspace holds the items of one counter, all or those of a group of hash slots: what a tablet is elsewhere. Its parts:
//
//	columns   what the schema says, and how rows of older blocks answer it     columns.go
//	ranges    the directory: which block holds a mid                           directory.go
//	builder   memory, seeds and sizes of new blocks                            builder.go
//
// What it adds is access to items, whatever the tier of their block (item.go, overlay.go, partial.go), and the change
// of blocks into others (reshape.go, widths.go, rewrite.go).
type keyspace struct {
	id          uint32 // the counter's
	counterName string
	hotFrom     atomic.Uint64 // blocks below are cold: where to begin to look for one to demote

	columns
	ranges
	builder

	tiers *tiers // the store's
}

// space is all items of a counter: one keyspace, or one for each group of hash slots. nil: there is no such counter.
type space []*keyspace

// of is the keyspace that has, or would have, an item.
func (sp space) of(mid uint64) *keyspace {
	if len(sp) == 1 {
		return sp[0]
	}
	return sp[slot.Group(mid)]
}

// define puts a definition of the counter in force. REQUIRES Store.gate held exclusively.
func (sp space) define(def *schema.Counter) error {
	columns := sp[0].columns
	if err := columns.define(def); err != nil {
		return err
	}
	for _, ks := range sp {
		ks.columns = columns // the layouts are the same ones, so blocks of all groups are recognized by them
	}
	return nil
}

// free gives all memory back. REQUIRES Store.gate held exclusively.
func (sp space) free() {
	for _, ks := range sp {
		ks.free()
	}
}

// parts is how many keyspaces a counter has.
func (s *Store) parts() int {
	if s.slotGroups {
		return slot.Groups
	}
	return 1
}

// keyspaces goes over all there are: by counter, then by group. REQUIRES Store.gate held.
func (s *Store) keyspaces(yield func(*keyspace) bool) {
	for _, sp := range s.spaces {
		for _, ks := range sp {
			if !yield(ks) {
				return
			}
		}
	}
}

// keyspaceAt is the keyspace with a number: that of the counter times parts, plus the group. nil: there is none. more is
// false where there is none behind either. REQUIRES Store.gate held.
func (s *Store) keyspaceAt(n int) (ks *keyspace, more bool) {
	if s.closed || n/s.parts() >= len(s.spaces) {
		return nil, false
	}
	if sp := s.spaces[n/s.parts()]; sp != nil {
		ks = sp[n%s.parts()]
	}
	return ks, true
}

// newKeyspace makes an empty keyspace with these columns.
func (s *Store) newKeyspace(columns columns, group uint8) (*keyspace, error) {
	def := columns.def
	ks := &keyspace{id: def.ID, counterName: def.Name, columns: columns, tiers: &s.tiers}
	ks.arena, ks.ids, ks.seed, ks.probes, ks.blockItems = &s.arena, &s.blockIDs, s.opts.HashSeed, s.opts.probes, s.opts.BlockItems
	ks.slotGroups, ks.group = s.slotGroups, group
	if ks.blockItems == 0 {
		if ks.blockItems = defaultBlockItems; s.slotGroups {
			ks.blockItems = slotGroupBlockItems
		}
	}
	if ks.sealing = s.repacker.sealing; ks.sealing != nil && ks.blockItems >= aheadLeast {
		ks.aheadAt = ks.blockItems - ks.blockItems/aheadShare
	}
	c := hot.Config{Hi: hot.EndMid, Buckets: hot.BucketsFor(smallestBlock, 1), Layout: ks.layout}
	b, err := ks.newBlock(c, ks.layout)
	if err != nil {
		return nil, err
	}
	ks.dir.Store(&directory{los: []uint64{0}, blocks: []*block{b}})
	return ks, nil
}

// newSpaces makes those of several counters, empty, or none.
func (s *Store) newSpaces(defs []*schema.Counter) ([]space, error) {
	made := make([]space, len(defs))
	for i, def := range defs {
		columns := columns{}
		err := columns.define(def)
		for group := 0; group < s.parts() && err == nil; group++ {
			var ks *keyspace
			if ks, err = s.newKeyspace(columns, uint8(group)); err == nil {
				made[i] = append(made[i], ks)
			}
		}
		if err != nil {
			for _, sp := range made {
				sp.free()
			}
			return nil, err
		}
	}
	return made, nil
}

// serves tells whether ks is in use: it was not cleared or dropped. REQUIRES Store.gate held; a keyspace that is not
// served must not be searched, as all its blocks are dead.
func (s *Store) serves(ks *keyspace) bool {
	return !s.closed && int(ks.id) < len(s.spaces) && s.spaces[ks.id] != nil && s.spaces[ks.id][ks.group] == ks
}

// before tells whether no block's image contains what the log says at pos.
func (ks *keyspace) before(pos uint64) bool {
	return !slices.ContainsFunc(ks.dir.Load().blocks, func(b *block) bool { return b.from >= pos })
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

// vacant tells, for b to tell, whether there are no items and only one block.
func (ks *keyspace) vacant(batch *Batch) bool {
	b := ks.lock(0)
	defer b.mu.Unlock()
	batch.noteSeen(b.logged)
	return b.open() && b.tab.Len() == 0
}

// len is the number of items, for b to tell. Blocks are counted one after the other, each under its lock.
func (ks *keyspace) len(batch *Batch) int {
	n := 0
	for _, b := range ks.dir.Load().blocks {
		b = ks.lockFor(b, b.lo)
		n += b.items()
		batch.noteSeen(b.logged)
		b.mu.Unlock()
	}
	return n
}
