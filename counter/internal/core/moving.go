package core

import (
	"maps"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Moves is which groups are not here. Guarded by Data.Gate, and written while it is held exclusively.
type Moves struct {
	Importing map[string]slot.Set // by move
	Gone      slot.Set
}

// Hidden are all that are not here.
func (g *Moves) Hidden() slot.Set {
	return g.Imported().Union(g.Gone)
}

// Imported are all that are on their way here.
func (g *Moves) Imported() (all slot.Set) {
	for _, set := range g.Importing {
		all = all.Union(set)
	}
	return all
}

// remove says that groups are of a move, or of none.
func (g *Moves) remove(set slot.Set) {
	for move, of := range g.Importing {
		for i := range of {
			of[i] &^= set[i]
		}
		if g.Importing[move] = of; of == (slot.Set{}) {
			delete(g.Importing, move)
		}
	}
	for i := range set {
		g.Gone[i] &^= set[i]
	}
}

// apply takes over what a record says. It makes a new map: snapshots have the old one.
func (g *Moves) apply(kind format.Kind, move string, set slot.Set) {
	g.Importing = maps.Clone(g.Importing)
	g.remove(set)
	switch kind {
	case format.KindImport:
		if g.Importing == nil {
			g.Importing = make(map[string]slot.Set)
		}
		of := g.Importing[move]
		for i := range set {
			of[i] |= set[i]
		}
		g.Importing[move] = of
	case format.KindDrop:
		for i := range set {
			g.Gone[i] |= set[i]
		}
	}
}

// Saved is what a manifest says of them.
func (g *Moves) Saved() (list []format.MovingGroups) {
	if g.Gone != (slot.Set{}) {
		list = append(list, format.MovingGroups{Groups: g.Gone})
	}
	for _, move := range slices.Sorted(maps.Keys(g.Importing)) {
		list = append(list, format.MovingGroups{Move: move, Groups: g.Importing[move]})
	}
	return list
}

// Load takes over what a manifest says.
func (g *Moves) Load(list []format.MovingGroups) {
	*g = Moves{}
	for _, v := range list {
		if v.Move == "" {
			g.Gone = v.Groups
		} else {
			g.apply(format.KindImport, v.Move, v.Groups)
		}
	}
}

// MovesGroups tells whether a record says that groups come, are here, or have gone.
func MovesGroups(kind format.Kind) bool {
	return kind == format.KindImport || kind == format.KindAccept || kind == format.KindDrop
}

// MoveGroups applies the record of a move that ends at pos. REQUIRES Data.Gate held exclusively, or a replay.
func (d *Data) MoveGroups(pos uint64, kind format.Kind, move string, set slot.Set) error {
	if kind != format.KindAccept {
		if err := d.emptyGroups(pos, set); err != nil {
			return err
		}
	}
	if failed := set.Both(d.Moving.Imported()); kind == format.KindDrop && failed != (slot.Set{}) {
		d.Producers.forget(pos, &failed)
	}
	d.Moving.apply(kind, move, set)
	d.HideGroups()
	return nil
}

// emptyGroups removes all posts of groups that a record at pos removes and images do not lack already. Where the store is
// not made of groups they are removed before, on their own: see deleteGroups.
func (d *Data) emptyGroups(pos uint64, set slot.Set) error {
	if !d.SlotGroups {
		return nil
	}
	return d.renew(func(ks *block.Keyspace) bool { return set.Has(ks.Group) && ks.Before(pos) })
}
