package counter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
)

// Groups are the posts of a store by groups of hash slots (package slot): which of them clients may touch. In a cluster
// a node serves those its shard owns; what it has of others, as they are on their way in or out, nobody sees.
//
// All methods are safe for concurrent use.
type Groups struct {
	s    *Store
	term uint64 // of In; 0: any
}

// Groups are the store's posts by groups of hash slots.
func (s *Store) Groups() Groups { return Groups{s: s} }

// In returns the groups as the primary of an epoch changes them: Import, Accept and Drop, and what an import brings, are
// refused by a *TermError once the store does not lead in that epoch.
func (g Groups) In(epoch uint64) Groups { return Groups{s: g.s, term: epoch} }

// leads refuses a change in the name of an epoch in which the store does not lead. REQUIRES Store.gate held.
func (g Groups) leads() error {
	if r := &g.s.repl; g.term != 0 && !r.Leads(g.term) {
		return &TermError{Got: g.term, Want: r.Epoch()}
	}
	return nil
}

// SlotGroups tells whether items are kept by group of hash slots: see Options.SlotGroups.
func (s *Store) SlotGroups() bool { return s.slotGroups }

// GroupStats is what a group of hash slots has.
type GroupStats struct {
	Posts int64 // of all counters
	Bytes int64 // memory of blocks, and files of cold ones
}

// Stats counts a group. Of a store that is not made of groups it is a 256th of everything, as hash slots spread posts
// evenly.
func (g Groups) Stats(group uint8) (st GroupStats) {
	s := g.s
	for n := 0; ; n++ {
		s.gate.RLock()
		ks, more := s.keyspaceAt(n)
		if ks != nil && (!s.slotGroups || ks.Group == group) {
			for lo := uint64(0); lo < hot.EndMid; {
				b := ks.Lock(lo)
				st.Posts += int64(b.Items())
				st.Bytes += int64(len(b.Span.Data))
				if b.Cold != nil {
					st.Bytes += b.Cold.File.Stat().Bytes
				}
				lo = b.Hi
				b.Mu.Unlock()
			}
		}
		s.gate.RUnlock()
		if more {
			continue
		}
		if !s.slotGroups {
			st.Posts, st.Bytes = st.Posts/slot.Groups, st.Bytes/slot.Groups
		}
		return st
	}
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

// Own says which groups clients may touch from now on, a bit each: group g is bit g%64 of set[g/64]. At first it is all
// of them. It returns when no batch is at work on others any more, so it must not be called while one is open.
//
// An operation on another group's post gets a *NotOwnedError, a change of several posts (see Batch.ChangeSet) is refused
// whole, and the number of a Once is not used up. What lists and counts posts passes over those of others: Scan, Find,
// Top, Aggregate, Update, Items, Digests. What the log brings, from a primary or at the start, is taken in any case.
func (g Groups) Own(set slot.Set) {
	s := g.s
	s.gate.Lock()
	defer s.gate.Unlock()
	for i, owned := range set {
		s.disowned[i] = ^owned
	}
	s.hideGroups()
}

// hideGroups brings what clients may touch up to date: not what Own did not name, nor what the log says is not here.
// REQUIRES Store.gate held exclusively, or a replay.
func (s *Store) hideGroups() {
	own, hidden := block.Ownership{}, s.moving.hidden()
	for i := range own.Foreign {
		own.Foreign[i] = s.disowned[i] | hidden[i]
		own.Some = own.Some || own.Foreign[i] != 0
	}
	s.own = own
}

// Owned are the groups that clients may touch: see Own.
func (g Groups) Owned() (set slot.Set) {
	g.s.gate.RLock()
	defer g.s.gate.RUnlock()
	for i, foreign := range g.s.own.Foreign {
		set[i] = ^foreign
	}
	return set
}

// hidden tells whether all items of a keyspace are not to be seen.
func (s *Store) hidden(ks *block.Keyspace) bool {
	return s.slotGroups && s.own.Some && s.own.Lacks(ks.Group)
}

// disown answers operation op, whose post is not to be touched: it is not run, and has no block.
func (b *Batch) disown(op *Op) {
	op.block, op.Err = nil, notOwned(&b.s.own, op.Mid)
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
func (b *Batch) Owns(of uint16) bool { return !b.s.own.Lacks(slot.GroupOf(of)) }

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
