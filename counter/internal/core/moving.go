package core

import (
	"errors"
	"fmt"
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

// ErrNotOwned is what a *NotOwnedError matches.
var ErrNotOwned = errors.New("counter: the hash slot is not served here")

// NotOwnedError says that a post's hash slot is of a group that is not served here: see Groups.Own. Nothing was changed.
type NotOwnedError struct{ Slot uint16 }

func (e *NotOwnedError) Error() string {
	return fmt.Sprintf("counter: hash slot %d is not served here", e.Slot)
}

// Is makes errors.Is(err, ErrNotOwned) true.
func (e *NotOwnedError) Is(target error) bool { return target == ErrNotOwned }

// HideGroups brings what clients may touch up to date: not what Own did not name, nor what the log says is not here.
// REQUIRES Data.Gate held exclusively, or a replay.
func (d *Data) HideGroups() {
	own, hidden := block.Ownership{}, d.Moving.Hidden()
	for i := range own.Foreign {
		own.Foreign[i] = d.Disowned[i] | hidden[i]
		own.Some = own.Some || own.Foreign[i] != 0
	}
	if own != d.Own {
		d.resetAllLists()
	}
	d.Own = own
}

// Hidden tells whether all items of a keyspace are not to be seen.
func (d *Data) Hidden(ks *block.Keyspace) bool {
	return d.SlotGroups && d.Own.Some && d.Own.Lacks(ks.Group)
}

// disown answers operation op, whose post is not to be touched: it is not run, and has no block.
func disown(b *Batch, op *Op) {
	op.block, op.Err = nil, notOwned(&b.data.Own, op.Mid)
	b.foreign = true
}

// disowned tells whether a group of operations is refused, as one of their posts is not to be touched; all of them say
// so then.
func (r *changeSets) disowned(g changeSet) bool {
	b := r.b
	if !b.foreign {
		return false
	}
	ops := b.ops[g.from:g.to]
	i := slices.IndexFunc(ops, func(op Op) bool { return op.block == nil })
	if i < 0 {
		return false
	}
	for k := range ops {
		ops[k].Err = ops[i].Err
	}
	if g.once > 0 {
		r.onces[g.once-1].Err = ops[i].Err
	}
	return true
}

// Owns tells whether clients may touch the posts of a hash slot, as long as the batch is open. REQUIRES the batch to be
// open.
func (b *Batch) Owns(of uint16) bool { return !b.data.Own.Lacks(slot.GroupOf(of)) }

// notOwned returns a *NotOwnedError for a post that is not to be touched.
func notOwned(o *block.Ownership, mid uint64) error {
	if !o.Some {
		return nil
	}
	if of := slot.Of(mid); o.Lacks(slot.GroupOf(of)) {
		return &NotOwnedError{of}
	}
	return nil
}
