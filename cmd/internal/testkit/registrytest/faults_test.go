// Scenario: random transactions against a model, with lost answers, compaction and leases that end.

package registrytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// TestFaults has processes whose network fails in all ways change one shard from what their watches give, and wants of each
// change what its outcome said: nil happened, a conflict did not, one that is unknown happened or, once a later change of
// the same key was made from the same map, never does. Watches only give newer maps, and the newest in the end.
func TestFaults(t *testing.T) {
	first := rand.Uint64()
	for run := range uint64(5) {
		seed := first + run
		synctest.Test(t, func(t *testing.T) { faults(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type outcome struct{ happened, not bool }

func faults(t *testing.T, seed uint64) {
	server := NewServer()
	perfect := server.Open(nil)
	defer perfect.Close()
	create(t, perfect)
	ctx, cancel := context.WithCancel(t.Context())

	// Every value that the shard ever had, by its replid.
	var had []string
	server.Observe(func(_ int64, kvs []topology.KV) {
		for _, kv := range kvs {
			var s topology.Shard
			if kv.Key == "shard/1" && json.Unmarshal(kv.Value, &s) == nil {
				had = append(had, s.ReplID)
			}
		}
	})

	const processes = 3
	links := make([]*Link, processes)
	outcomes := make([]map[string]outcome, processes)
	var wg sync.WaitGroup
	for p := range processes {
		links[p] = NewLink(seed<<8 + uint64(p))
		outcomes[p] = map[string]outcome{}
		wg.Go(func() {
			r := server.Open(links[p])
			defer r.Close()
			change(ctx, t, r, p, outcomes[p])
		})
	}
	rng := rand.New(rand.NewPCG(seed, 9))
	time.Sleep(time.Second)
	for range 25 {
		l := links[rng.IntN(processes)]
		switch rng.IntN(6) {
		case 0:
			l.Cut(rng.IntN(2) == 0, rng.IntN(2) == 0)
		case 1:
			server.SetDown(true)
		case 2:
			server.Compact()
		case 3:
			l.SetFaults(Faults{Delay: 300 * time.Millisecond, RequestLost: 0.1, AnswerLost: 0.2, Late: 0.1, LateBy: 20 * time.Second, WatchLost: 0.05})
		default:
			server.SetDown(false)
			l.Cut(false, false)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Second))))
	}
	server.SetDown(false)
	for _, l := range links {
		l.Cut(false, false)
		l.SetFaults(Faults{})
	}
	time.Sleep(time.Minute) // what is late comes
	must(t, perfect, func(m *topology.Map) (topology.Change, error) { return topology.SetPolicy(m, 1, 1) })
	cancel()
	wg.Wait()

	server.Observe(nil)
	known, never := 0, 0
	for p := range processes {
		for token, o := range outcomes[p] {
			is := slices.Contains(had, token)
			if o.happened && !is || o.not && is {
				t.Errorf("change %s: told %+v, it happened: %t", token, o, is)
			}
			if o.happened {
				known++
			}
			if o.not {
				never++
			}
		}
	}
	if testing.Verbose() {
		t.Logf("%d are known to have happened, %d not to", known, never)
	}
	if known == 0 {
		t.Errorf("of all changes none is known to have happened, %d not to", never)
	}
}

// change makes changes until ctx ends, and then waits for the newest map.
func change(ctx context.Context, t *testing.T, r registry.Registry, p int, outcomes map[string]outcome) {
	last, n := int64(0), 0
	watching, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	for m := range r.Watch(watching) {
		if m.Revision <= last {
			t.Errorf("got revision %d behind %d", m.Revision, last)
		}
		last = m.Revision
		if m.Cluster.MinInSync == 1 { // the last change of all
			return
		}
		s := m.Shard(1)
		if s == nil || ctx.Err() != nil {
			continue
		}
		time.Sleep(200 * time.Millisecond)
		n++
		token := fmt.Sprintf("%d-%d", p, n)
		next := *s
		next.ReplID = token
		var c topology.Change
		c.Set("shard/1", s.Revision, next)
		err := r.Commit(ctx, c)
		switch {
		case err == nil:
			outcomes[token] = outcome{happened: true}
		case errors.Is(err, registry.ErrUnknown):
			outcomes[token] = settle(ctx, r, m)
		default:
			outcomes[token] = outcome{not: true}
		}
	}
	t.Error("the last change did not come")
}

// settle finds out about a change of the shard that was made from a map: if another from the same map is made, it never
// happens; if not, it is not known here.
func settle(ctx context.Context, r registry.Registry, m *topology.Map) outcome {
	for range 3 {
		c, err := topology.Touch(m, 1)
		if err != nil {
			return outcome{}
		}
		if err := r.Commit(ctx, c); err == nil {
			return outcome{not: true}
		} else if errors.Is(err, registry.ErrConflict) {
			return outcome{}
		}
	}
	return outcome{}
}

// TestLeaseLost cuts a node off: its lease is lost by its own clock at the deadline, not later than etcd removes the key.
func TestLeaseLost(t *testing.T) {
	for _, c := range []struct{ requests, answers bool }{{true, false}, {false, true}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			server, link := NewServer(), NewLink(1)
			r, other := server.Open(link), server.Open(nil)
			defer r.Close()
			defer other.Close()
			l, err := r.Register(t.Context(), node(1), 6*time.Second, topology.Live{Process: "one"})
			if err != nil {
				t.Fatal(err)
			}
			link.SetFaults(Faults{Delay: 100 * time.Millisecond}) // etcd hears of a renewal later than it was sent
			time.Sleep(time.Minute)
			if load(t, other).Live[node(1)] == nil {
				t.Fatal("the lease is not renewed")
			}
			link.Cut(c.requests, c.answers)
			<-l.Lost()
			if now := time.Now(); now.Before(l.Deadline()) || now.After(l.Deadline().Add(time.Second)) {
				t.Errorf("it is lost %s behind the deadline", now.Sub(l.Deadline()))
			}
			if c.requests && load(t, other).Live[node(1)] == nil {
				t.Error("etcd removed the key before the node knew")
			}
			if err := l.Update(t.Context(), topology.Live{}); !errors.Is(err, registry.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			time.Sleep(7 * time.Second)
			if load(t, other).Live[node(1)] != nil {
				t.Error("the key is still there")
			}
			// It comes back under a new lease.
			link.Cut(false, false)
			if _, err = r.Register(t.Context(), node(1), 6*time.Second, topology.Live{Process: "one"}); err != nil {
				t.Fatal(err)
			}
			if load(t, other).Live[node(1)] == nil {
				t.Error("the key is not there again")
			}
		})
	}
}

// TestEtcdDown takes etcd away for longer than leases live: they live on, as with etcd, and a node's own deadline passes.
func TestEtcdDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer()
		r := server.Open(nil)
		defer r.Close()
		maps := r.Watch(t.Context())
		create(t, r)
		until(t, maps, "the shard", func(m *topology.Map) bool { return m.Shard(1) != nil })
		l := register(t, r, topology.Live{})
		server.SetDown(true)
		<-l.Lost()
		time.Sleep(time.Minute)
		if r.Err() == nil {
			t.Error("the watch says that all is well")
		}
		server.SetDown(false)
		if load(t, r).Live[node(1)] == nil {
			t.Error("the key is gone: etcd's leases do not run out while it has no leader")
		}
		must(t, r, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
		until(t, maps, "the epoch", func(m *topology.Map) bool { return m.Shard(1).Epoch == 1 })
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestRestored has etcd come back with less than it had: nothing older is given, and it is told.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, older := NewServer(), NewServer()
		create(t, server.Open(nil))
		create(t, older.Open(nil))
		must(t, server.Open(nil), func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
		st := &swapped{Store: server.Store(nil)}
		r := registry.New(st)
		defer r.Close()
		maps := r.Watch(t.Context())
		until(t, maps, "the epoch", func(m *topology.Map) bool { return m.Shard(1) != nil && m.Shard(1).Epoch == 1 })
		st.swap(older.Store(nil))
		server.Compact()
		server.Put("shard/9", []byte("{")) // ends the watch, so that all is read again
		time.Sleep(time.Minute)
		var back *registry.RevisionError
		if err := r.Err(); !errors.As(err, &back) || back.Got >= back.Want {
			t.Errorf("got %v, want that the revision went back", err)
		}
		select {
		case m := <-maps:
			t.Errorf("got a map of revision %d", m.Revision)
		default:
		}
	})
}

// TestRestoredAtRevision has etcd come back without a promotion, and reach the revision again that it had: what it is told
// next is not applied to the map that it has lost. It is taken as a whole once its revision is higher.
func TestRestoredAtRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, older := NewServer(), NewServer()
		create(t, server.Open(nil))
		create(t, older.Open(nil))
		must(t, server.Open(nil), func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
		st := &swapped{Store: server.Store(nil)}
		r := registry.New(st)
		defer r.Close()
		maps := r.Watch(t.Context())
		until(t, maps, "the epoch", func(m *topology.Map) bool { return m.Shard(1) != nil && m.Shard(1).Epoch == 1 })
		for load(t, older.Open(nil)).Revision < load(t, server.Open(nil)).Revision {
			older.Put("other", []byte("{}"))
		}
		st.swap(older.Store(nil))
		server.Compact()
		server.Put("shard/9", []byte("{")) // ends the watch, so that all is read again
		time.Sleep(time.Minute)
		var back *registry.RevisionError
		if err := r.Err(); !errors.As(err, &back) || back.Got != back.Want {
			t.Errorf("got %v, want that etcd has other keys at the same revision", err)
		}
		select {
		case m := <-maps:
			t.Errorf("got a map of revision %d", m.Revision)
		default:
		}
		older.Put("other", nil)
		until(t, maps, "what etcd has now", func(m *topology.Map) bool { return m.Shard(1) != nil && m.Shard(1).Epoch == 0 })
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
}

// swapped is a store of which all that comes is another's at some time.
type swapped struct {
	mu sync.Mutex
	registry.Store
}

// swap lets all that comes be another store's. REQUIRES a bubble of synctest: it waits until a watch of the store before has begun, which may
// happen behind the map that it goes on from.
func (s *swapped) swap(to registry.Store) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = to
}

func (s *swapped) now() registry.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store
}

func (s *swapped) Get(ctx context.Context) (int64, []topology.KV, error) { return s.now().Get(ctx) }

func (s *swapped) Watch(ctx context.Context, from int64, changed func(int64, []topology.KV) error) error {
	return s.now().Watch(ctx, from, changed)
}
