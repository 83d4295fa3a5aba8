package registrytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Env is an empty cluster for one case.
type Env struct {
	Open  func() registry.Registry       // another process's
	Store func() registry.Store          // the same, below
	Put   func(key string, value []byte) // writes as a hand does; nil removes
	// Compact forgets all changes up to now.
	Compact func()
	// Full raises the alarm NOSPACE, or ends it; nil: the other cases run beside this one, so it cannot.
	Full func(full bool)
}

// Case is one thing that holds for every Registry and Store.
type Case struct {
	Name string
	Run  func(t *testing.T, env Env)
}

// Cases run against etcd and against the one in memory: that both do the same is what makes tests with the latter count.
var Cases = []Case{
	{"commit", testCommit}, {"race", testRace}, {"watch", testWatch}, {"conflated", testConflated}, {"compacted", testCompacted},
	{"badValue", testBadValue}, {"lease", testLease}, {"taken", testTaken}, {"expired", testExpired}, {"closed", testClosed},
	{"leasedLate", testLeasedLate},
}

// wait is generous: nothing is measured by it.
const wait = 30 * time.Second

func node(i int) topology.NodeID { return topology.NodeID(fmt.Sprintf("%040x", i)) }

func load(t *testing.T, r registry.Registry) *topology.Map {
	t.Helper()
	m, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// must makes a change of the newest map.
func must(t *testing.T, r registry.Registry, make func(m *topology.Map) (topology.Change, error)) *topology.Map {
	t.Helper()
	c, err := make(load(t, r))
	if err == nil {
		err = r.Commit(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return load(t, r)
}

// create makes a cluster with one shard of two nodes.
func create(t *testing.T, r registry.Registry) *topology.Map {
	t.Helper()
	must(t, r, func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "an id", time.Now(), 1, 2)
	})
	for i := 1; i <= 2; i++ {
		must(t, r, func(m *topology.Map) (topology.Change, error) {
			return topology.RegisterNode(m, topology.Node{ID: node(i), Host: "127.0.0.1", Port: 7000 + i})
		})
	}
	return must(t, r, func(m *topology.Map) (topology.Change, error) {
		return topology.AddShard(m, []topology.NodeID{node(1), node(2)}, slot.AllGroups())
	})
}

// until takes maps from a watch until one is as wanted. None is older than the one before.
func until(t *testing.T, maps <-chan *topology.Map, what string, ok func(m *topology.Map) bool) *topology.Map {
	t.Helper()
	timeout := time.After(wait)
	last := int64(0)
	for {
		select {
		case m, open := <-maps:
			if !open {
				t.Fatalf("%s: the watch has ended", what)
			}
			if m.Revision <= last {
				t.Fatalf("%s: got revision %d behind %d", what, m.Revision, last)
			}
			if last = m.Revision; ok(m) {
				return m
			}
		case <-timeout:
			t.Fatalf("%s: it did not come in %s", what, wait)
		}
	}
}

func testCommit(t *testing.T, env Env) {
	a, b := env.Open(), env.Open()
	defer a.Close()
	defer b.Close()
	if m := load(t, a); m.Created() || len(m.Nodes) != 0 {
		t.Fatalf("got %+v, want nothing", m)
	}
	m := create(t, a)
	if s := m.Shard(1); s == nil || s.Groups != slot.AllGroups() || len(m.Members(1)) != 2 || m.Owner(200) != s {
		t.Fatalf("got shard %+v and nodes %v", s, m.Members(1))
	}
	if faults := m.Faults(); len(faults) != 0 {
		t.Fatal(faults)
	}
	// Two processes promote from the same map: one of them does.
	first, err := topology.Promote(m, 1, node(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), first); !errors.Is(err, registry.ErrConflict) || errors.Is(err, registry.ErrUnknown) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	m = load(t, b)
	if s := m.Shard(1); s.Epoch != 1 || s.Primary != node(1) {
		t.Fatalf("got %+v, want epoch 1 of %s", s, node(1))
	}
	// Keys that are written and removed together, and one that is only compared.
	var c topology.Change
	c.Set(topology.NodeKey(node(3)), 0, topology.Node{ID: node(3), Host: "h", Port: 1})
	c.Remove(topology.NodeKey(node(2)), m.Nodes[node(2)].Revision)
	c.Same(topology.ClusterKey, m.Cluster.Revision)
	c.Same("no/such", 0)
	if err := a.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m = load(t, b)
	if m.Nodes[node(2)] != nil || m.Nodes[node(3)] == nil || m.Nodes[node(3)].Revision <= m.Cluster.Revision {
		t.Fatalf("got %v at %d", m.Nodes, m.Revision)
	}
	// What is removed does not exist, and what exists is not new.
	c = topology.Change{}
	c.Same(topology.NodeKey(node(2)), 0)
	c.Set(topology.NodeKey(node(3)), 0, topology.Node{ID: node(3), Host: "h", Port: 2})
	if err := a.Commit(t.Context(), c); !errors.Is(err, registry.ErrConflict) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	if got := load(t, a).Nodes[node(3)]; got.Revision != m.Nodes[node(3)].Revision {
		t.Fatalf("got revision %d behind a conflict, want %d", got.Revision, m.Nodes[node(3)].Revision)
	}
	if err := a.Commit(t.Context(), topology.Change{}); err != nil {
		t.Fatalf("nothing to do: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Load(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that of the context", err)
	}
}

// testRace has several promote from the same maps at once: each epoch has one winner, and all agree who it is.
func testRace(t *testing.T, env Env) {
	r := env.Open()
	defer r.Close()
	create(t, r)
	must(t, r, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
	const processes, rounds = 4, 10
	var mu sync.Mutex
	winners := map[uint64]int{}
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			r := env.Open()
			defer r.Close()
			for {
				m, err := r.Load(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				s := *m.Shard(1)
				if s.Epoch > rounds {
					return
				}
				c, err := topology.ForceUnclean(m, 1, node(1+p%2), 0)
				if err != nil {
					t.Error(err)
					return
				}
				switch err := r.Commit(t.Context(), c); {
				case err == nil:
					mu.Lock()
					winners[s.Epoch+1]++
					mu.Unlock()
				case !errors.Is(err, registry.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for epoch := uint64(2); epoch <= rounds+1; epoch++ {
		if winners[epoch] != 1 {
			t.Errorf("epoch %d has %d winners, want one", epoch, winners[epoch])
		}
	}
}

func testWatch(t *testing.T, env Env) {
	a, b := env.Open(), env.Open()
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	maps := b.Watch(ctx)
	until(t, maps, "an empty map", func(m *topology.Map) bool { return !m.Created() })
	create(t, a)
	until(t, maps, "the shard", func(m *topology.Map) bool { return m.Shard(1) != nil })
	for epoch := range uint64(5) {
		want := must(t, a, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
		m := until(t, maps, "the epoch", func(m *topology.Map) bool { return m.Shard(1).Epoch == epoch+1 })
		if got := m.Shard(1).Revision; got != want.Shard(1).Revision || got > m.Revision {
			t.Fatalf("got revision %d at %d, want %d", got, m.Revision, want.Shard(1).Revision)
		}
	}
	must(t, a, func(m *topology.Map) (topology.Change, error) {
		c := topology.Change{}
		c.Remove(topology.NodeKey(node(2)), m.Nodes[node(2)].Revision)
		return c, nil
	})
	until(t, maps, "the removed node", func(m *topology.Map) bool { return m.Nodes[node(2)] == nil })
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range maps {
	}
}

// testConflated does not read a watch for a while: the newest comes then.
func testConflated(t *testing.T, env Env) {
	r := env.Open()
	defer r.Close()
	slow := r.Watch(t.Context())
	quick := r.Watch(t.Context())
	create(t, r)
	const epochs = 20
	for range epochs {
		must(t, r, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
	}
	until(t, quick, "the last epoch", func(m *topology.Map) bool { return m.Shard(1) != nil && m.Shard(1).Epoch == epochs })
	n := 0
	until(t, slow, "the last epoch", func(m *topology.Map) bool {
		n++
		return m.Shard(1) != nil && m.Shard(1).Epoch == epochs
	})
	if n > epochs/2 {
		t.Errorf("got %d maps, want few: those that nobody took are left out", n)
	}
}

// testCompacted wants a watch from what is compacted to end, and one that is up to date to go on.
func testCompacted(t *testing.T, env Env) {
	r, store := env.Open(), env.Store()
	defer r.Close()
	defer store.Close()
	maps := r.Watch(t.Context())
	m := create(t, r)
	must(t, r, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
	until(t, maps, "epoch 1", func(m *topology.Map) bool { return m.Shard(1) != nil && m.Shard(1).Epoch == 1 })
	env.Compact()
	err := store.Watch(t.Context(), m.Revision, func(revision int64, kvs []topology.KV) error {
		return fmt.Errorf("got %d changes of revision %d", len(kvs), revision)
	})
	if err == nil || t.Context().Err() != nil {
		t.Fatalf("got %v, want an error of what is compacted", err)
	}
	t.Log(err)
	must(t, r, func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, node(1)) })
	until(t, maps, "epoch 2", func(m *topology.Map) bool { return m.Shard(1).Epoch == 2 })
}

// testBadValue wants a value that makes no map to be told, and all to go on when it is mended.
func testBadValue(t *testing.T, env Env) {
	r := env.Open()
	defer r.Close()
	create(t, r)
	maps := r.Watch(t.Context())
	until(t, maps, "the shard", func(m *topology.Map) bool { return m.Shard(1) != nil })
	for _, bad := range []struct{ key, value string }{
		{"shard/1", "{"}, {"cluster", `{"format":99,"id":"x","minInSync":1}`},
	} {
		m := load(t, r)
		env.Put(bad.key, []byte(bad.value))
		for began := time.Now(); r.Err() == nil; time.Sleep(time.Millisecond) {
			if time.Since(began) > wait {
				t.Fatalf("%s: it is not told", bad.value)
			}
		}
		var value *topology.ValueError
		var format *topology.FormatError
		if _, err := r.Load(t.Context()); !errors.As(err, &value) && !errors.As(err, &format) {
			t.Fatalf("%s: got %v, want one of the value", bad.value, err)
		}
		select {
		case m := <-maps:
			t.Fatalf("%s: got %+v", bad.value, m)
		default:
		}
		var c topology.Change // the values as they were
		c.Set("shard/1", 0, m.Shard(1))
		c.Set("cluster", 0, m.Cluster)
		for _, kv := range c.Put {
			env.Put(kv.Key, kv.Value)
		}
		mended := load(t, r)
		until(t, maps, "the mended map", func(m *topology.Map) bool {
			return m.Shard(1).Revision == mended.Shard(1).Revision && m.Cluster.Revision == mended.Cluster.Revision
		})
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
