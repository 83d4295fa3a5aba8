package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// rules are those of the host and the machine. Each of them broken must be found.
type rules struct {
	ackEpoch bool // an acknowledgement counts in its epoch only
	fence    bool // a node that has heard of a higher epoch refuses
	behind   bool // a machine that lost power says so
}

var allRules = rules{ackEpoch: true, fence: true, behind: true}

// world is a whole cluster: machines, processes, networks, clients, an etcd, faults. mu guards what it and machines and
// processes have. No goroutine waits while it holds mu.
type world struct {
	seed    uint64
	rules   rules
	durable bool // appendfsync always
	strict  bool // a power loss takes all that is not durable
	lease   time.Duration
	shards  int
	keys    int
	think   time.Duration // of clients between commands
	rolls   bool          // machines are rolled back, where others lose power
	etcd    *registrytest.Server
	trace   *strings.Builder // nil: none is kept
	tracing sync.Mutex       // guards trace; a leaf

	machines []*machine
	stop     chan struct{} // closed: clients end
	over     chan struct{} // closed: all ends
	flushes  sync.WaitGroup

	mu         sync.Mutex
	rng        *rand.Rand
	cuts       map[[2]*machine]bool // of one direction
	etcdFaults registrytest.Faults
	procs      int
	ops        int64
	answered   int
	attempts   map[int64]bool              // those that were not refused
	promised   map[int64]int               // acknowledged, and the shard
	copies     map[int64]map[*machine]bool // acknowledged by several nodes in sync: the machines of which a power loss took it
	leaders    map[[2]uint64]*proc         // by shard and epoch
	history    map[int][]attempt
	rolledBack bool // a machine's disk was set back: its replica may find that it lacks confirmed changes
	lossy      bool // reads may be stale, or a whole in-sync set lost power: histories say nothing
	failures   []string
	faults     map[string]int
}

func shardID(n int) topology.ShardID { return topology.ShardID(n + 1) }

// fail notes a broken invariant. mu is held.
func (w *world) fail(format string, args ...any) {
	if len(w.failures) < 5 {
		w.failures = append(w.failures, fmt.Sprintf(format, args...))
		w.say("FAIL "+format, args...)
	}
}

// say traces. mu may be held.
func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.tracing.Lock()
		defer w.tracing.Unlock()
		fmt.Fprintf(w.trace, "%9.3f "+format+"\n", append([]any{time.Since(epochOfTime).Seconds()}, args...)...)
	}
}

var epochOfTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the clocks of synctest begin

type traceWriter struct {
	w *world
	m *machine
}

func (t traceWriter) Write(b []byte) (int, error) {
	traceLock.Lock()
	defer traceLock.Unlock()
	t.w.say("%s %s", t.m.id[:4], strings.TrimSpace(string(b)))
	return len(b), nil
}

var traceLock sync.Mutex

func (w *world) logger(m *machine) *slog.Logger {
	if w.trace == nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(traceWriter{w, m}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (w *world) random(n int) int { return rand.IntN(n) }

func (w *world) machine(id topology.NodeID) *machine {
	for _, m := range w.machines {
		if m.id == id {
			return m
		}
	}
	return nil
}

// cutOff tells whether what from sends does not reach to. mu is held.
func (w *world) cutOff(from, to *machine) bool {
	return w.cuts[[2]*machine{from, to}] || !from.up || !to.up
}

// led checks that a process begins an epoch alone, and with all that was acknowledged. mu is held.
func (w *world) led(p *proc) {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	shard := m.Nodes[p.m.id].Shard
	w.say("%s leads shard %d epoch %d with %d", p.m.id[:4], shard, p.epochOf, len(p.m.log))
	key := [2]uint64{uint64(shard), p.epochOf}
	if other := w.leaders[key]; other != nil {
		w.fail("shard %d epoch %d: %s leads, and %s did", shard, p.epochOf, p.m.id[:4], other.m.id[:4])
	}
	w.leaders[key] = p
	if s := m.Shard(shard); s != nil && s.Epoch > p.epochOf {
		return // it will acknowledge nothing: the newer one is checked
	}
	for id, s := range w.promised {
		if shardID(s) == shard && !p.m.has(id) {
			w.fail("shard %d epoch %d: %s leads without change %d, which was acknowledged", shard, p.epochOf, p.m.id[:4], id)
			delete(w.promised, id)
		}
	}
}

// acked is called when a client gets the reply to its change: all nodes in sync must have it, as etcd lists them by now.
// mu is held.
func (w *world) acked(p *proc, id int64) {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	s := m.Shard(m.Nodes[p.m.id].Shard)
	for _, n := range s.InSync {
		if other := w.machine(n); !other.behind && !other.stale && !other.has(id) {
			w.fail("shard %d: change %d is acknowledged by %s in epoch %d, and %s, in sync of epoch %d, has it not", s.ID, id, p.m.id[:4], p.epochOf, n[:4], s.Epoch)
		}
	}
	w.promised[id] = int(s.ID) - 1
	if len(s.InSync) > 1 {
		w.copies[id] = map[*machine]bool{}
	}
}

// verify checks that who is in sync by etcd, and not behind, has all that was acknowledged. mu is held.
func (w *world) verify(when string) {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	for _, s := range m.Shards {
		for _, n := range s.InSync {
			other := w.machine(n)
			if other.behind || other.stale {
				continue
			}
			has := map[int64]bool{}
			for _, r := range other.log {
				has[r.id] = true
			}
			for id, of := range w.promised {
				if shardID(of) == s.ID && !has[id] {
					w.fail("shard %d: %s is in sync of epoch %d without change %d, which was acknowledged (%s)", s.ID, n[:4], s.Epoch, id, when)
					return
				}
			}
		}
	}
}

// mourn forgets what no machine in sync has on its disk any more: all have lost power under everysec. mu is held.
func (w *world) mourn() {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	for id, shard := range w.promised {
		held := false
		for _, n := range m.Shard(shardID(shard)).InSync {
			held = held || w.machine(n).has(id)
		}
		if !held {
			switch lost := w.copies[id]; {
			case w.durable:
				w.fail("change %d was acknowledged as durable, and no machine in sync has it", id)
			case lost != nil && len(lost) < 2 && !w.rolledBack:
				w.fail("change %d was acknowledged by several nodes, and a power loss of %d took it", id, len(lost))
			}
			delete(w.promised, id)
			w.lossy = true
		}
	}
}

// shape is how a cluster is made.
type shape struct {
	shards, replicas, nodes, least int
	durable                        bool
	lease                          time.Duration // 0: 2 seconds
}

func randomShape(rng *rand.Rand) shape {
	s := shape{shards: 1 + rng.IntN(3)/2*(1+rng.IntN(2)), replicas: 1 + rng.IntN(2), durable: rng.IntN(4) == 0}
	if s.nodes = max(3, s.shards*(1+s.replicas)+rng.IntN(2)); s.nodes > 7 {
		s.replicas, s.nodes = 1, 7
	}
	s.least = 1 + rng.IntN(1+s.replicas)
	return s
}

// newWorld makes a cluster that runs.
func newWorld(t *testing.T, seed uint64, of shape, broken rules, rolls, trace bool) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	if of.nodes == 0 {
		of = randomShape(rng)
	}
	w := &world{seed: seed, rules: broken, rng: rng, durable: of.durable, lease: cmp.Or(of.lease, 2*time.Second), shards: of.shards, keys: 6, think: 60 * time.Millisecond, etcd: registrytest.NewServer(),
		stop: make(chan struct{}), over: make(chan struct{}), cuts: map[[2]*machine]bool{}, attempts: map[int64]bool{}, promised: map[int64]int{},
		copies: map[int64]map[*machine]bool{}, leaders: map[[2]uint64]*proc{}, history: map[int][]attempt{}, faults: map[string]int{}, rolls: rolls}
	if trace {
		w.trace = &strings.Builder{}
	}
	replicas := of.replicas
	for i := range of.nodes {
		m := &machine{w: w, id: topology.NodeID(fmt.Sprintf("%02x%038x", i+1, rng.Uint64())), zone: string(rune('a' + i%3)), up: true, changed: make(chan struct{})}
		w.machines = append(w.machines, m)
		w.boot(m)
	}
	w.commit(t, func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "sim", time.Now(), replicas, of.least)
	})
	for s := range w.shards {
		var ids []topology.NodeID
		for _, m := range w.machines[s*(1+replicas) : (s+1)*(1+replicas)] {
			ids = append(ids, m.id)
		}
		var groups slot.Set
		groups.Add(uint8(s))
		w.commit(t, func(m *topology.Map) (topology.Change, error) { return topology.AddShard(m, ids, groups) })
	}
	w.say("seed %d: %d shards of %d nodes, %d replicas, %d in sync at least, durable %v", seed, w.shards, of.nodes, replicas, of.least, w.durable)
	return w
}

// commit makes a change as an administrator does.
func (w *world) commit(t *testing.T, make func(m *topology.Map) (topology.Change, error)) {
	admin := w.etcd.Open(nil)
	defer func() { _ = admin.Close() }()
	for range 20 {
		m, err := admin.Load(t.Context())
		if err == nil {
			var c topology.Change
			if c, err = make(m); err == nil {
				err = admin.Commit(t.Context(), c)
			}
		}
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
		if t.Context().Err() != nil {
			break
		}
	}
	t.Fatal("the change is not made")
}

// renew is how often starts are registered: often in tests of that.
func (w *world) renew() time.Duration {
	if w.rolls {
		return 2 * time.Second
	}
	return 0
}

// settled waits until each shard has a primary and all its nodes in sync; false: it does not come.
func (w *world) settled(within time.Duration) bool {
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		m, err := w.etcd.Map()
		ok := err == nil
		w.mu.Lock()
		for _, s := range m.Shards {
			p := w.machine(s.InSync[0]).proc
			if s.Primary != "" {
				p = w.machine(s.Primary).proc
			}
			ok = ok && p != nil && p.kind == leading && p.epochOf == s.Epoch && p.standing.Primary && p.standing.Writes == "" && len(s.InSync) == len(m.Members(s.ID)) &&
				len(s.InSync) >= 1+m.Cluster.Replicas
		}
		w.mu.Unlock()
		if ok {
			return true
		}
		if time.Now().After(end) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range m.Shards {
				w.say("not settled: %+v of %d members", s, len(m.Members(s.ID)))
			}
			w.fail("the cluster does not settle in %s", within)
			return false
		}
	}
}
