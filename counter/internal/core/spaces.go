package core

import (
	"fmt"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// SetSlotGroups says whether items are kept by group of hash slots. REQUIRES: there are no keyspaces yet.
func (d *Data) SetSlotGroups(on bool) {
	d.SlotGroups = on
	items := d.Config.BlockItems
	if items == 0 {
		if items = defaultBlockItems; on {
			items = slotGroupBlockItems
		}
	}
	d.env = block.Environment{
		Arena: &d.Arena, IDs: &d.BlockIDs, Seed: d.Config.HashSeed, Probes: d.Config.Probes, BlockItems: items,
		SlotGroups: on, Sealing: d.Sealing, Widening: d.Widening, Files: &d.Files,
	}
}

// Parts is how many keyspaces a counter has.
func (d *Data) Parts() int {
	if d.SlotGroups {
		return slot.Groups
	}
	return 1
}

// Keyspaces goes over all there are: by counter, then by group. REQUIRES Data.Gate held.
func (d *Data) Keyspaces(yield func(*block.Keyspace) bool) {
	for _, sp := range d.Spaces {
		for _, ks := range sp {
			if !yield(ks) {
				return
			}
		}
	}
}

// KeyspaceAt is the keyspace with a number: that of the counter times parts, plus the group. nil: there is none. more is
// false where there is none behind either. REQUIRES Data.Gate held.
func (d *Data) KeyspaceAt(n int) (ks *block.Keyspace, more bool) {
	if d.Closed || n/d.Parts() >= len(d.Spaces) {
		return nil, false
	}
	if sp := d.Spaces[n/d.Parts()]; sp != nil {
		ks = sp[n%d.Parts()]
	}
	return ks, true
}

// newSpaces makes those of several counters, empty, or none.
func (d *Data) newSpaces(defs []*schema.Counter) ([]block.Space, error) {
	made := make([]block.Space, len(defs))
	for i, def := range defs {
		columns := block.Columns{}
		err := columns.Define(def)
		for group := 0; group < d.Parts() && err == nil; group++ {
			var ks *block.Keyspace
			if ks, err = block.NewKeyspace(&d.env, columns, uint8(group)); err == nil {
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

// Serves tells whether ks is in use: it was not cleared or dropped. REQUIRES Data.Gate held; a keyspace that is not
// served must not be searched, as all its blocks are dead.
func (d *Data) Serves(ks *block.Keyspace) bool {
	return !d.Closed && int(ks.ID) < len(d.Spaces) && d.Spaces[ks.ID] != nil && d.Spaces[ks.ID][ks.Group] == ks
}

// Vacant tells, for b to tell, whether there are no items and only one block.
func Vacant(batch *Batch, ks *block.Keyspace) bool {
	b := ks.Lock(0)
	defer b.Mu.Unlock()
	batch.seen.noteSeen(b.Logged)
	return b.Open() && b.Tab.Len() == 0
}

// countItems is the number of items, for b to tell. Blocks are counted one after the other, each under its lock.
func countItems(batch *Batch, ks *block.Keyspace) int {
	n := 0
	for _, b := range ks.Dir.Load().Blocks {
		b = ks.LockFor(b, b.Lo)
		n += b.Items()
		batch.seen.noteSeen(b.Logged)
		b.Mu.Unlock()
	}
	return n
}

// Items is the number of items of all counters, without what spaces of derived columns have. Where not all groups are owned and the store is not made of groups, it
// is estimated, as hash slots spread items evenly: to count would be to read all. REQUIRES the batch to be open.
func (b *Batch) Items() int {
	n, d := 0, b.data
	for ks := range d.Keyspaces {
		if !d.Hidden(ks) && !ks.Def.IsSpace() {
			n += countItems(b, ks)
		}
	}
	if d.SlotGroups {
		return n
	}
	return d.Own.Share(n)
}

// CheckBlockItems refuses a Config.BlockItems.
func CheckBlockItems(n int) error {
	if n != 0 && (n < 16 || n > 512<<10) {
		return fmt.Errorf("counter: BlockItems: got %d, want 16..%d", n, 512<<10)
	}
	return nil
}

// Default BlockItems. There are 256 open blocks of a counter in a store made of groups, each with items packed less
// densely: with 16 Ki those are 2 % of 100 M items.
const (
	defaultBlockItems   = 64 << 10
	slotGroupBlockItems = 16 << 10
)
