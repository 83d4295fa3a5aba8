package registrytest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

func register(t *testing.T, r registry.Registry, live topology.Live) registry.Lease {
	t.Helper()
	l, err := r.Register(t.Context(), node(1), 2*time.Second, live)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testLease keeps one for longer than its time to live.
func testLease(t *testing.T, env Env) {
	a, b := env.Open(), env.Open()
	defer a.Close()
	defer b.Close()
	maps := b.Watch(t.Context())
	for _, ttl := range []time.Duration{0, time.Second, 2500 * time.Millisecond} {
		if _, err := a.Register(t.Context(), node(1), ttl, topology.Live{}); err == nil {
			t.Errorf("got a lease of %s, want an error", ttl)
		}
	}
	before := time.Now()
	l := register(t, a, topology.Live{Process: "one", Written: 5})
	first := l.Deadline()
	if d := first.Sub(before); d < 2*time.Second || d > time.Minute {
		t.Fatalf("got a deadline in %s, want 2 s or what etcd made of it", d)
	}
	m := until(t, maps, "the node", func(m *topology.Map) bool { return m.Live[node(1)] != nil })
	if got := m.Live[node(1)]; got.Process != "one" || got.Written != 5 || got.Revision > m.Revision {
		t.Fatalf("got %+v at %d", got, m.Revision)
	}
	for !time.Now().After(first) {
		if !sleepOrLost(l, time.Until(first)+time.Millisecond) {
			t.Fatal("the lease is lost")
		}
	}
	if err := l.Update(t.Context(), topology.Live{Process: "one", Written: 6}); err != nil {
		t.Fatal(err)
	}
	if m := load(t, b); m.Live[node(1)] == nil || m.Live[node(1)].Written != 6 || !l.Deadline().After(first) {
		t.Fatalf("got %+v and the deadline %s, want one behind %s", m.Live[node(1)], l.Deadline(), first)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := load(t, b); m.Live[node(1)] != nil {
		t.Fatalf("got %+v behind Close", m.Live[node(1)])
	}
	<-l.Lost()
	if err := l.Update(t.Context(), topology.Live{}); err == nil {
		t.Fatal("a closed lease is written under")
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatalf("closed again: %v", err)
	}
}

// NoSpace is the case of the alarm NOSPACE, which concerns all clusters in one etcd: it runs alone.
var NoSpace = Case{"noSpace", testNoSpace}

func testNoSpace(t *testing.T, env Env) {
	r := env.Open()
	defer r.Close()
	create(t, r)
	l := register(t, r, topology.Live{Process: "a"})
	alarms := func(want int) {
		t.Helper()
		if list, err := r.Alarms(t.Context()); err != nil || len(list) != want || want > 0 && !strings.HasPrefix(list[0], registry.NoSpaceText) {
			t.Fatalf("got alarms %q, %v, want %d", list, err, want)
		}
	}
	alarms(0)
	env.Full(true)
	alarms(1)
	c, err := topology.SetPolicy(load(t, r), 1, 1)
	if err == nil {
		err = r.Commit(t.Context(), c)
	}
	if err == nil || errors.Is(err, registry.ErrUnknown) || errors.Is(err, registry.ErrConflict) {
		t.Errorf("a change: got %v, want it refused for sure", err)
	}
	if err := l.Update(t.Context(), topology.Live{Process: "b"}); err == nil || errors.Is(err, registry.ErrLost) {
		t.Errorf("a node's key: got %v, want it refused", err)
	}
	if _, err := r.Register(t.Context(), node(2), 2*time.Second, topology.Live{}); err == nil {
		t.Error("a lease is granted")
	}
	if before := l.Deadline(); !sleepUntil(wait, func() bool { return l.Deadline().After(before) }) {
		t.Error("the lease is not renewed")
	}
	env.Full(false)
	alarms(0)
	if err := l.Update(t.Context(), topology.Live{Process: "b"}); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func sleepUntil(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func sleepOrLost(l registry.Lease, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.Lost():
		return false
	}
}

// testTaken has a second process register as the same node: the key is its, also when the first one ends or writes.
func testTaken(t *testing.T, env Env) {
	a, b := env.Open(), env.Open()
	defer a.Close()
	defer b.Close()
	first := register(t, a, topology.Live{Process: "first"})
	second := register(t, b, topology.Live{Process: "second"})
	defer second.Close(t.Context())
	if err := first.Update(t.Context(), topology.Live{Process: "first"}); !errors.Is(err, registry.ErrTaken) {
		t.Fatalf("got %v, want ErrTaken", err)
	}
	select {
	case <-first.Lost():
	case <-time.After(wait):
		t.Fatal("the first is not told")
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := load(t, a); m.Live[node(1)] == nil || m.Live[node(1)].Process != "second" {
		t.Fatalf("got %+v, want the second", m.Live[node(1)])
	}
	if err := second.Update(t.Context(), topology.Live{Process: "second", Posts: 1}); err != nil {
		t.Fatal(err)
	}
}

// testExpired closes a registry without its lease, as a process that is killed: the key goes by itself.
func testExpired(t *testing.T, env Env) {
	a, b := env.Open(), env.Open()
	defer b.Close()
	maps := b.Watch(t.Context())
	l := register(t, a, topology.Live{Process: "one"})
	until(t, maps, "the node", func(m *topology.Map) bool { return m.Live[node(1)] != nil })
	a.Close()
	until(t, maps, "the end of the lease", func(m *topology.Map) bool { return m.Live[node(1)] == nil })
	if now := time.Now(); now.Before(l.Deadline()) {
		t.Errorf("the key went %s before the deadline", l.Deadline().Sub(now))
	}
}

func testClosed(t *testing.T, env Env) {
	r := env.Open()
	create(t, r)
	maps := r.Watch(t.Context())
	until(t, maps, "the shard", func(m *topology.Map) bool { return m.Shard(1) != nil })
	m := load(t, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for range maps {
	}
	for range r.Watch(t.Context()) {
		t.Error("got a map of what is closed")
	}
	c, err := topology.Touch(m, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(t.Context(), c); !errors.Is(err, registry.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if _, err := r.Load(t.Context()); !errors.Is(err, registry.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if _, err := r.Register(t.Context(), node(1), 2*time.Second, topology.Live{}); !errors.Is(err, registry.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// testLeasedLate writes under a lease as a request would that comes late: it compares what it was made from.
func testLeasedLate(t *testing.T, env Env) {
	store := env.Store()
	defer store.Close()
	granted, err := store.Grant(t.Context(), 60*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	put := func(value string, revision, lease int64) registry.Leased {
		t.Helper()
		at, err := store.PutLeased(t.Context(), topology.KV{Key: topology.LiveKey(node(1)), Value: []byte(value), Revision: revision}, lease)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	one := put(`{"process":"one"}`, 0, granted.Lease)
	if !one.Written || one.Lease != granted.Lease || one.Revision == 0 {
		t.Fatalf("got %+v, want it written", one)
	}
	if late := put(`{"process":"late"}`, 0, granted.Lease); late != (registry.Leased{Revision: one.Revision, Lease: granted.Lease}) {
		t.Fatalf("got %+v, want what the key is: %+v", late, one)
	}
	if two := put(`{"process":"two"}`, one.Revision, granted.Lease); !two.Written || two.Revision <= one.Revision {
		t.Fatalf("got %+v, want it written", two)
	}
	if ttl, err := store.Renew(t.Context(), granted.Lease); err != nil || ttl != granted.TTL {
		t.Fatalf("got %s and %v, want %s", ttl, err, granted.TTL)
	}
	if err := store.Revoke(t.Context(), granted.Lease); err != nil {
		t.Fatal(err)
	}
	if err := store.Revoke(t.Context(), granted.Lease); !errors.Is(err, registry.ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if _, err := store.Renew(t.Context(), granted.Lease); !errors.Is(err, registry.ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if at, err := store.PutLeased(t.Context(), topology.KV{Key: topology.LiveKey(node(1)), Value: []byte("{}")}, granted.Lease); !errors.Is(err, registry.ErrLost) {
		t.Fatalf("got %+v and %v, want ErrLost", at, err)
	}
	if _, kvs, err := store.Get(t.Context()); err != nil || len(kvs) != 0 {
		t.Fatalf("got %v and %v, want no keys", kvs, err)
	}
}
