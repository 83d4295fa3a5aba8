package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
)

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
