package replica

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Groups of hash slots move from one store to another while clients go on (package move says when). Here is what that
// means for a store's data; all of it is in the log, so that replicas, snapshots and restarts need nothing of their own.
//
//	record   says                                  the group is   its posts
//	import   rows of the group are going to come   importing      are gone
//	rows     items, as they were at the source     "              come, and nobody sees them
//	set ...  what the source changed meanwhile     "              "
//	accept   the group is the store's own          here           are served, where Own says so
//	drop     the group is another store's          gone           are gone
//
// A drop of a group that was importing ends an attempt whose changes may never have been made: the source's next primary may
// lack them. So it also removes the entries of producers in the group that came with that attempt.
//
// Values are absolute, and each record may be applied twice. What is importing or gone is hidden whatever Own says.

// ErrTimeBehind: the time of the log is so far behind the clock that all of a window will have gone when it moves on, within ten minutes. Nothing was
// changed.
var ErrTimeBehind = errors.New("counter: the time of the log is too far behind the clock to take counts of windows over")

// ErrNotImporting: groups of hash slots are not on their way here by this move, or not any more. Nothing was changed.
var ErrNotImporting = errors.New("counter: the hash slots are not being moved here by this move")

// ErrBehind: a record has a counter or a column that the schema here does not have yet. Nothing was changed.
var ErrBehind = errors.New("counter: the schema lacks what is moved here")

// States tells which groups the log says are on their way here, by move, and which have gone to another store.
func (g Groups) States() (importing map[string]slot.Set, gone slot.Set) {
	g.s.Gate.RLock()
	defer g.s.Gate.RUnlock()
	importing = make(map[string]slot.Set)
	for move, set := range g.s.Moving.Importing {
		importing[move] = set
	}
	return importing, g.s.Moving.Gone
}

// imported are the groups that are on their way here, by whatever move.
func (g Groups) imported() slot.Set {
	g.s.Gate.RLock()
	defer g.s.Gate.RUnlock()
	return g.s.Moving.Imported()
}

// ErrNotHere: posts of groups of hash slots are asked for that the log says are on their way here, or have gone.
var ErrNotHere = errors.New("counter: the hash slots are not here")

// Hidden are the groups that the log says are not here: on their way here, or gone.
func (g Groups) Hidden() slot.Set {
	g.s.Gate.RLock()
	defer g.s.Gate.RUnlock()
	return g.s.Moving.Hidden()
}

// Accept says that groups that came by a move are here: durably once the offset is committed (Replication.CommitShard in a
// cluster). Accepting groups that are here already changes nothing.
func (g Groups) Accept(move string, set slot.Set) (end uint64, err error) {
	return g.logMove(format.KindAccept, move, set)
}

// Drop removes all posts of groups, which another store has taken over by a move, or will never come. Clients must not
// see them any more: see Own. In a store that is not made of groups that takes a while, as each post is removed on its
// own. It may be repeated, and goes on then. Errors as of changes.
func (g Groups) Drop(move string, set slot.Set) (end uint64, err error) {
	if err := g.deleteGroups(set); err != nil {
		return 0, err
	}
	return g.logMove(format.KindDrop, move, set)
}

// logMove logs and applies that groups come, are here, or have gone.
func (g Groups) logMove(kind format.Kind, move string, set slot.Set) (end uint64, err error) {
	s := g.s
	if len(move) == 0 || len(move) > format.MaxMoveID {
		return 0, fmt.Errorf("counter: move's id of %d bytes, want 1..%d", len(move), format.MaxMoveID)
	}
	if s.Log == nil {
		return 0, core.ErrInMemory
	}
	s.Applying.Lock() // the record and its effect are one for who copies a block
	defer s.Applying.Unlock()
	b := s.NewSilent(0)
	if err := b.BeginExclusive(); err != nil {
		return 0, err
	}
	defer b.End()
	if err := s.TakesChanges(); err != nil {
		return 0, err
	}
	if err := g.leads(); err != nil {
		return 0, err
	}
	if end, err = s.Log.Append(format.AppendMove(nil, kind, move, set)); err != nil {
		return 0, err
	}
	s.Altered = end
	return end, s.MoveGroups(end, kind, move, set)
}

// deleteBatch is how many posts deleteGroups removes at a time: some 40 us.
const deleteBatch = 256

// deleteGroups removes the posts of groups one by one, where the store is not made of groups.
func (g Groups) deleteGroups(set slot.Set) error {
	s := g.s
	if s.SlotGroups {
		return nil
	}
	b := s.NewCarrier()
	var mids []uint64
	var ids []uint32
	if err := b.Begin(); err != nil {
		return err
	}
	for _, def := range b.Schema().All() {
		ids = append(ids, def.ID)
	}
	b.End()
	for _, id := range ids {
		for lo := uint64(0); ; {
			if err := b.Begin(); err != nil {
				return err
			}
			def := b.Schema().CounterByID(id)
			if def == nil {
				b.End()
				break
			}
			blk := s.Spaces[id][0].Lock(lo)
			mids, _ = blk.AppendMids(mids[:0])
			hi, last := blk.Hi, blk.Open()
			blk.Mu.Unlock()
			b.End()
			for len(mids) > 0 {
				n := 0
				if err := b.Begin(); err != nil {
					return err
				}
				if err := g.leads(); err != nil {
					b.End()
					return err
				}
				if def = b.Schema().CounterByID(id); def == nil {
					b.End()
					break
				}
				for n < len(mids) && b.Len() < deleteBatch {
					if mid := mids[n]; set.Has(slot.Group(mid)) {
						b.Add(core.Op{Kind: core.OpDelete, Counter: def, Mid: mid})
					}
					n++
				}
				mids = mids[n:]
				b.Run()
				b.End()
				for i := range b.Len() {
					if err := b.Op(i).Err; err != nil {
						return err
					}
				}
				b.Reset()
				if err := b.Commit(); err != nil {
					return err
				}
			}
			if lo = hi; last {
				break
			}
		}
	}
	return nil
}
