package counter

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// setSlotGroups says whether items are kept by group of hash slots. REQUIRES: there are no keyspaces yet.
func (s *Store) setSlotGroups(on bool) {
	s.slotGroups = on
	items := s.opts.BlockItems
	if items == 0 {
		if items = defaultBlockItems; on {
			items = slotGroupBlockItems
		}
	}
	s.env = block.Environment{
		Arena: &s.arena, IDs: &s.blockIDs, Seed: s.opts.HashSeed, Probes: s.opts.probes, BlockItems: items,
		SlotGroups: on, Sealing: s.repacker.sealing, Files: &s.tiers.ColdFiles,
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
func (s *Store) keyspaces(yield func(*block.Keyspace) bool) {
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
func (s *Store) keyspaceAt(n int) (ks *block.Keyspace, more bool) {
	if s.closed || n/s.parts() >= len(s.spaces) {
		return nil, false
	}
	if sp := s.spaces[n/s.parts()]; sp != nil {
		ks = sp[n%s.parts()]
	}
	return ks, true
}

// newSpaces makes those of several counters, empty, or none.
func (s *Store) newSpaces(defs []*schema.Counter) ([]block.Space, error) {
	made := make([]block.Space, len(defs))
	for i, def := range defs {
		columns := block.Columns{}
		err := columns.Define(def)
		for group := 0; group < s.parts() && err == nil; group++ {
			var ks *block.Keyspace
			if ks, err = block.NewKeyspace(&s.env, columns, uint8(group)); err == nil {
				made[i] = append(made[i], ks)
			}
		}
		if err != nil {
			for _, sp := range made {
				sp.Free()
			}
			return nil, err
		}
	}
	return made, nil
}

// serves tells whether ks is in use: it was not cleared or dropped. REQUIRES Store.gate held; a keyspace that is not
// served must not be searched, as all its blocks are dead.
func (s *Store) serves(ks *block.Keyspace) bool {
	return !s.closed && int(ks.ID) < len(s.spaces) && s.spaces[ks.ID] != nil && s.spaces[ks.ID][ks.Group] == ks
}

// vacant tells, for b to tell, whether there are no items and only one block.
func vacant(batch *Batch, ks *block.Keyspace) bool {
	b := ks.Lock(0)
	defer b.Mu.Unlock()
	batch.noteSeen(b.Logged)
	return b.Open() && b.Tab.Len() == 0
}

// countItems is the number of items, for b to tell. Blocks are counted one after the other, each under its lock.
func countItems(batch *Batch, ks *block.Keyspace) int {
	n := 0
	for _, b := range ks.Dir.Load().Blocks {
		b = ks.LockFor(b, b.Lo)
		n += b.Items()
		batch.noteSeen(b.Logged)
		b.Mu.Unlock()
	}
	return n
}
