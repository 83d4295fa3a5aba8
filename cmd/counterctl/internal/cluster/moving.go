package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// moving is moves under way: those that wait, and those that were begun. A shard gives to one and takes from one at a time.
type moving struct {
	wait   []*piece
	begun  map[string]*piece // by the move's id
	all    int               // groups
	done   int
	failed []error

	timeout time.Duration         // 0: none
	state   atomic.Pointer[state] // as of the newest map
}

// state is how far the moves are, for the goroutine that tells it.
type state struct {
	done    int
	waiting string // the moves and shards that are waited for
}

// tellEvery is how often the command tells the reason of its wait, while no group is moved.
var tellEvery = 10 * time.Second

// piece is the groups of one move.
type piece struct {
	topology.Transfer
	tries int
	since int64  // revision of etcd at which it was begun
	why   string // it was given up, as heard last
}

func newMoving(list []topology.Transfer, atOnce int) *moving {
	w := &moving{begun: map[string]*piece{}}
	for _, t := range list {
		groups := t.Groups.List()
		w.all += len(groups)
		for part := range slices.Chunk(groups, atOnce) {
			p := &piece{Transfer: topology.Transfer{From: t.From, To: t.To}}
			for _, g := range part {
				p.Groups.Add(uint8(g))
			}
			w.wait = append(w.wait, p)
		}
	}
	return w
}

// run begins moves and waits for them. Those that were begun go on by themselves when ctx ends.
func (w *moving) run(outer context.Context, s *session) error {
	ctx, cancel := context.WithCancel(outer)
	if w.timeout > 0 {
		ctx, cancel = context.WithTimeout(outer, w.timeout)
	}
	w.state.Store(&state{waiting: "etcd to answer"})
	var telling sync.WaitGroup
	telling.Go(func() { w.tell(ctx, s) })
	defer telling.Wait()
	defer cancel()
	show, finish := human.CountProgress(s.out.Stderr, "groups moved")
	defer finish()
	for m := range s.Watch(ctx) {
		w.look(m)
		show(uint64(w.done), uint64(w.all))
		if len(w.begun)+len(w.wait) == 0 {
			return errors.Join(w.failed...)
		}
		for p := w.next(m); p != nil; p = w.next(m) {
			id := randomID()
			begun, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) {
				if ending(m, p.Groups) {
					return topology.Change{}, errEnding
				}
				return topology.StartMove(m, id, p.Groups, p.From, p.To, time.Now())
			})
			if err == errEnding { // it has begun since: a map behind it will show its end
				w.wait = append(w.wait, p)
				break
			}
			if err != nil && ctx.Err() == nil {
				return errors.Join(append(w.failed, err)...)
			}
			if err != nil { // the map that comes next is none
				w.wait = append(w.wait, p)
				break
			}
			p.since, p.tries = begun.Revision, p.tries+1
			w.begun[id] = p
		}
		w.state.Store(&state{w.done, w.waiting(m)})
	}
	if outer.Err() == nil && ctx.Err() != nil {
		w.failed = append(w.failed, fmt.Errorf("%d of %d groups are moved within %s, waiting for %s (--timeout sets a longer limit; the moves that have begun go on, and --abort ends one)",
			w.done, w.all, w.timeout, w.state.Load().waiting))
		return errors.Join(w.failed...)
	}
	if len(w.begun) > 0 {
		s.say("%d of %d groups are moved; the moves that have begun go on (counterctl cluster status)", w.done, w.all)
	}
	return errors.Join(append(w.failed, ctx.Err(), s.Err())...)
}

// tell prints the reason of the wait, each time that no group was moved for tellEvery, until ctx ends.
func (w *moving) tell(ctx context.Context, s *session) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for done := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := w.state.Load()
		if now.done == done {
			s.say("%d of %d groups are moved, waiting for %s", done, w.all, now.waiting)
		}
		done = now.done
	}
}

// waiting names the end of the first move that was begun, and the shards that keep it from coming.
func (w *moving) waiting(m *topology.Map) string {
	ids := slices.Sorted(maps.Keys(w.begun))
	if len(ids) == 0 {
		return "the end of other moves of the same shards or groups"
	}
	p := w.begun[ids[0]]
	text := fmt.Sprintf("the move of groups %s from shard %d to %d, attempt %d", p.Groups, p.From, p.To, p.tries)
	for _, id := range []topology.ShardID{p.From, p.To} {
		if shard := m.Shard(id); shard != nil && m.Live[shard.Primary] == nil {
			text += fmt.Sprintf(", and a primary of shard %d", id)
		}
	}
	if p.why != "" {
		text += "; it was given up as " + p.why
	}
	return text
}

// look takes notice of moves that have ended.
func (w *moving) look(m *topology.Map) {
	for _, id := range slices.Sorted(maps.Keys(w.begun)) {
		p, v := w.begun[id], m.Move(id)
		to := m.Shard(p.To)
		switch {
		case m.Revision < p.since:
			continue
		case to == nil:
			w.failed = append(w.failed, fmt.Errorf("groups %s: shard %d is gone", p.Groups, p.To))
		case to.Groups.Both(p.Groups) == p.Groups:
			w.done += p.Groups.Len()
		case v != nil && v.State == topology.MoveAborted:
			p.why = v.Error
			continue // its end frees the groups
		case v != nil:
			continue
		case p.tries < maxTries:
			w.wait = append(w.wait, p)
		default:
			why := ""
			if p.why != "" { // an end that came quickly is not seen
				why = ", last as " + p.why
			}
			w.failed = append(w.failed, fmt.Errorf("groups %s from shard %d to %d: given up %d times%s", p.Groups, p.From, p.To, p.tries, why))
		}
		delete(w.begun, id)
	}
}

// errEnding: groups cannot be moved yet.
var errEnding = errors.New("another move of the groups comes to its end")

// ending tells whether groups are those of a move that is decided, and whose shards have not both done their part yet. The
// data that the source or the destination drops must be gone before the groups can come back.
func ending(m *topology.Map, groups slot.Set) bool {
	return slices.ContainsFunc(m.Moves, func(v *topology.Move) bool {
		both := v.Groups.Both(groups)
		return v.State != topology.MoveCopying && !both.Empty()
	})
}

// next takes the first piece that waits, whose shards are free and whose groups are not those of a move that ends; nil: there
// is none.
func (w *moving) next(m *topology.Map) *piece {
	gives, takes := map[topology.ShardID]bool{}, map[topology.ShardID]bool{}
	for _, p := range w.begun {
		gives[p.From], takes[p.To] = true, true
	}
	for _, v := range m.Moves {
		if v.State == topology.MoveCopying && w.begun[v.ID] == nil {
			gives[v.From], takes[v.To] = true, true
		}
	}
	i := slices.IndexFunc(w.wait, func(p *piece) bool { return !gives[p.From] && !takes[p.To] && !ending(m, p.Groups) })
	if i < 0 {
		return nil
	}
	p := w.wait[i]
	w.wait = slices.Delete(w.wait, i, i+1)
	return p
}
