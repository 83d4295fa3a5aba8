// Scenario: clusters of three under random faults: no acknowledged change is lost.

package repl

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
)

var electionsSeed = flag.Uint64("elections", 0, "the seed of TestElections (0: new ones, printed)")

// election is a cluster of three under random faults. Who leads and who is in sync stands in one place, as etcd is one,
// and what a node knows of it may be old. Each change is of a post of its own, so that one look tells whether it is
// there.
type election struct {
	*testing.T
	rng     *rand.Rand
	members map[string]*member // those that run have a node
	ids     []string

	// What etcd has.
	epoch   uint64
	primary string
	inSync  []string

	mu      sync.Mutex // guards the rest
	acked   []uint64
	refused []uint64
	unknown int
	posts   uint64
	pending sync.WaitGroup
}

func (e *election) up(id string) bool { return e.members[id].node != nil }

// change has a client change a post of a node that it takes for the primary.
func (e *election) change(id string) {
	m := e.members[id]
	e.posts++
	mid := e.posts
	store, alive := m.host.Store(), m.alive
	e.pending.Go(func() {
		_, err := store.Incr(fmt.Sprintf("%d.n", mid), 1)
		e.mu.Lock()
		defer e.mu.Unlock()
		var uncertain *counter.UncertainError
		switch {
		case !alive.Load(): // nobody heard of it
			e.unknown++
		case err == nil:
			e.acked = append(e.acked, mid)
		case errors.As(err, &uncertain):
			e.unknown++
		case errors.Is(err, counter.ErrReplica), errors.Is(err, counter.ErrNoKey), errors.Is(err, counter.ErrClosed):
			e.refused = append(e.refused, mid)
		default:
			e.Errorf("post %d on %s: %v", mid, id, err)
		}
	})
}

// has checks that a node has all that was acknowledged and nothing that was refused.
func (e *election) has(id string) {
	e.Helper()
	e.mu.Lock()
	acked, refused := slices.Clone(e.acked), slices.Clone(e.refused)
	e.mu.Unlock()
	for _, mid := range acked {
		if got := e.members[id].get(mid); got != 1 {
			e.Fatalf("epoch %d: %s has %d of post %d, which was acknowledged", e.epoch, id, got, mid)
		}
	}
	for _, mid := range refused {
		if got := e.members[id].get(mid); got != 0 {
			e.Fatalf("epoch %d: %s has %d of post %d, which was refused", e.epoch, id, got, mid)
		}
	}
}

// elect has another node lead, or the same one in another term: one of those in sync that has the most, and does not
// lack what it acknowledged unless it is the only one.
func (e *election) elect() {
	best := ""
	for _, id := range e.inSync {
		if !e.up(id) {
			continue
		}
		log := e.members[id].host.Store().Replication()
		if log.Behind() && len(e.inSync) > 1 {
			continue
		}
		if best == "" || log.Written() > e.members[best].host.Store().Replication().Written() {
			best = id
		}
	}
	if best == "" {
		return
	}
	e.epoch++
	if best != e.primary {
		e.inSync = slices.DeleteFunc(slices.Clone(e.inSync), func(id string) bool { return id == e.primary })
	}
	e.primary = best
	e.members[best].lead(e.epoch, e.inSync...)
	e.has(best)
	for _, id := range e.ids {
		if e.rng.IntN(3) > 0 {
			e.follow(id)
		}
	}
}

// leads is the node that leads, if it knows that and runs.
func (e *election) leads() *member {
	if e.primary == "" || !e.up(e.primary) || e.members[e.primary].node.peers.quorum.leads() != e.epoch {
		return nil
	}
	return e.members[e.primary]
}

// shrink takes a node out of those in sync.
func (e *election) shrink(id string) {
	p := e.leads()
	if p == nil || id == e.primary || !slices.Contains(e.inSync, id) {
		return
	}
	e.inSync = slices.DeleteFunc(slices.Clone(e.inSync), func(other string) bool { return other == id })
	p.node.Require(e.inSync)
}

// expand takes one in that has caught up.
func (e *election) expand(id string) {
	p := e.leads()
	if p == nil || !e.up(id) || slices.Contains(e.inSync, id) {
		return
	}
	from := p.node.Require(append(slices.Clone(e.inSync), id))
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		written, durable, _, ok := p.node.Peers().Acked(id)
		if p.sync == counter.SyncAlways {
			written = durable
		}
		if ok && written >= from {
			e.inSync = append(slices.Clone(e.inSync), id)
			e.has(id)
			return
		}
	}
	p.node.Require(e.inSync) // it never was in sync
}

func (e *election) follow(id string) {
	if p := e.leads(); p != nil && id != e.primary && e.up(id) {
		e.members[id].follow(p, e.epoch)
	}
}

// TestElections runs random faults: nodes are killed or lose power and come back, acknowledgements are lost, nodes learn
// late who leads, clients go on changing on whoever led. Whatever was acknowledged each later primary has, and what was
// refused none.
func TestElections(t *testing.T) {
	t.Parallel()
	seeds, steps := 3, 120
	if testing.Short() {
		seeds = 1
	}
	for range seeds {
		seed := seed.Next(t)
		if *electionsSeed != 0 {
			seed = *electionsSeed
		}
		for _, policy := range []counter.SyncPolicy{counter.SyncEverySec, counter.SyncAlways} {
			t.Run(fmt.Sprintf("%v/%d", policy, seed), func(t *testing.T) {
				t.Parallel()
				runElections(t, seed, policy, steps)
			})
		}
	}
}

func runElections(t *testing.T, seed uint64, policy counter.SyncPolicy, steps int) {
	e := &election{T: t, rng: rand.New(rand.NewPCG(seed, 0)), ids: []string{"a", "b", "c"}, members: map[string]*member{}, inSync: []string{"a"}}
	for _, id := range e.ids {
		e.members[id] = newComparing(t, id, policy)
	}
	e.elect()
	e.members["a"].schema()
	for _, id := range e.ids[1:] {
		e.follow(id)
	}
	for range steps {
		id := e.ids[e.rng.IntN(3)]
		m := e.members[id]
		switch n := e.rng.IntN(100); {
		case n < 55:
			for range 1 + e.rng.IntN(5) {
				if e.up(id) {
					e.change(id) // whether it leads or not
				}
				if p := e.leads(); p != nil {
					e.change(e.primary)
				}
			}
		case n < 60 && e.up(id):
			// Under everysec power that goes everywhere takes what was acknowledged: that is its meaning.
			others := slices.ContainsFunc(e.inSync, func(other string) bool {
				return other != id && e.up(other) && !e.members[other].host.Store().Replication().Behind()
			})
			m.stop(e.rng.IntN(2) == 0 && (policy == counter.SyncAlways || others), e.rng.Uint64())
		case n < 70 && !e.up(id):
			m.start()
		case n < 75:
			m.silent.Store(!m.silent.Load())
		case n < 80:
			e.elect()
		case n < 84:
			e.follow(id)
		case n < 92:
			e.follow(id)
			e.expand(id)
		case n < 94:
			e.shrink(id)
		case n < 96 && e.leads() != nil:
			e.leads().node.Doubt(errors.New("a member is away"))
			e.leads().node.Doubt(nil)
		case n < 98 && e.up(id) && id != e.primary:
			if err := m.node.Rest(); err != nil {
				t.Fatal(err)
			}
		default:
			time.Sleep(time.Duration(e.rng.IntN(3)) * time.Millisecond)
		}
	}
	// In the end all is well, and all have the same.
	for _, id := range e.ids {
		if !e.up(id) {
			e.members[id].start()
		}
		e.members[id].silent.Store(false)
	}
	e.elect()
	if e.leads() == nil {
		t.Fatal("nobody can lead")
	}
	for _, id := range e.ids {
		e.follow(id)
	}
	e.leads().node.Require(e.ids)
	e.pending.Wait()
	e.change(e.primary)
	e.pending.Wait()
	if n := len(e.acked); n == 0 || e.acked[n-1] != e.posts {
		t.Fatal("the last change was not acknowledged")
	}
	for _, id := range e.ids {
		e.has(id)
	}
	want := digest(t, e.leads().host.Store())
	for _, id := range e.ids {
		if got := digest(t, e.members[id].host.Store()); got != want {
			t.Fatalf("%s differs", id)
		}
	}
	ranges := uint64(0)
	for _, id := range e.ids { // those that were not restarted compared all the time
		i := e.members[id].node.Compare()
		if ranges += i.Ranges; i.Differences != 0 {
			t.Errorf("%s compared %d ranges and found %d differences: %s", id, i.Ranges, i.Differences, i.Last)
		}
	}
	t.Logf("%d ranges compared", ranges)
	t.Logf("epoch %d: %d acknowledged, %d uncertain, %d refused", e.epoch, len(e.acked), e.unknown, len(e.refused))
}
