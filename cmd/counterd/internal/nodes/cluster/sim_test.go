package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// rules are those of the host and the machine. Each of them broken must be found.
type rules struct {
	ackEpoch bool // an acknowledgement counts in its epoch only
	fence    bool // who has heard of a higher epoch refuses
	behind   bool // a machine that lost power says so
}

var allRules = rules{ackEpoch: true, fence: true, behind: true}

// world is a whole cluster: machines, processes, networks, clients, an etcd, faults. mu guards what it and machines and
// processes have, and is held by nobody who waits.
type world struct {
	seed    uint64
	rules   rules
	durable bool // appendfsync always
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
	attempts   map[int64]bool      // those that were not refused
	promised   map[int64]int       // acknowledged, and the shard
	leaders    map[[2]uint64]*proc // by shard and epoch
	history    map[int][]attempt
	rolledBack bool // a machine's disk was set back: who follows it may find that it lacks what was confirmed
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

// acked is told that a client hears that its change is done: all in sync must have it, whoever etcd says they are by now.
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
			if w.durable {
				w.fail("change %d was acknowledged as durable, and no machine in sync has it", id)
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
	w := &world{seed: seed, rules: broken, rng: rng, durable: of.durable, shards: of.shards, keys: 6, think: 60 * time.Millisecond, etcd: registrytest.NewServer(),
		stop: make(chan struct{}), over: make(chan struct{}), cuts: map[[2]*machine]bool{}, attempts: map[int64]bool{}, promised: map[int64]int{},
		leaders: map[[2]uint64]*proc{}, history: map[int][]attempt{}, faults: map[string]int{}, rolls: rolls}
	if trace {
		w.trace = &strings.Builder{}
	}
	replicas := of.replicas
	for i := range of.nodes {
		m := &machine{w: w, id: topology.NodeID(fmt.Sprintf("%02x%038x", i+1, rng.Uint64())), zone: string(rune('a' + i%3)), up: true, changed: make(chan struct{})}
		w.machines = append(w.machines, m)
		w.boot(m)
	}
	admin := w.etcd.Open(nil)
	defer func() { _ = admin.Close() }()
	commit := func(make func(m *topology.Map) (topology.Change, error)) {
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
		t.Fatal("the cluster is not made")
	}
	commit(func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "sim", time.Now(), replicas, of.least)
	})
	for s := range w.shards {
		var ids []topology.NodeID
		for _, m := range w.machines[s*(1+replicas) : (s+1)*(1+replicas)] {
			ids = append(ids, m.id)
		}
		var groups slot.Set
		groups.Add(uint8(s))
		commit(func(m *topology.Map) (topology.Change, error) { return topology.AddShard(m, ids, groups) })
	}
	w.say("seed %d: %d shards of %d nodes, %d replicas, %d in sync at least, durable %v", seed, w.shards, of.nodes, replicas, of.least, w.durable)
	return w
}

// renew is how often starts are registered: often where that is what is tried.
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

// fault makes something go wrong.
func (w *world) fault(bg *sync.WaitGroup) {
	w.mu.Lock()
	rng, m, other := w.rng, w.machines[w.rng.IntN(len(w.machines))], w.machines[w.rng.IntN(len(w.machines))]
	if rng.IntN(2) == 0 { // half of them a primary
		if tm, err := w.etcd.Map(); err == nil && len(tm.Shards) > 0 {
			if p := w.machine(tm.Shards[rng.IntN(len(tm.Shards))].Primary); p != nil {
				m = p
			}
		}
	}
	long := time.Duration(rng.IntN(1+rng.IntN(8000))) * time.Millisecond
	kind, two, three := rng.IntN(24), rng.IntN(3), rng.IntN(4)
	p := m.proc
	if w.rolls {
		for _, m := range w.machines {
			m.keep()
		}
	}
	w.mu.Unlock()
	later := func(f func()) {
		bg.Go(func() {
			time.Sleep(long)
			f()
		})
	}
	name := ""
	switch kind {
	case 0, 1, 2, 3:
		name = "kill"
		w.kill(m)
		later(func() { w.revive(m) })
	case 4, 5:
		if w.rolls {
			name = "roll back"
			w.rollBack(m)
			later(func() { w.revive(m) })
			break
		}
		name = "power"
		w.off(m)
		later(func() { w.revive(m) })
	case 6, 7, 8:
		name = "stop"
		w.freeze(p)
		later(func() { w.thaw(p) })
	case 9, 10:
		name = "cut"
		w.cut(m, other, two != 1, two != 2, true)
		later(func() { w.cut(m, other, true, true, false) })
	case 11, 12:
		name = "isolate"
		for _, o := range w.machines {
			w.cut(m, o, two != 1, two != 2, true)
		}
		later(func() {
			for _, o := range w.machines {
				w.cut(m, o, true, true, false)
			}
		})
	case 13, 14, 15:
		name = "etcd cut"
		if p != nil {
			p.etcd.Cut(two != 1, two != 2)
			later(func() { p.etcd.Cut(false, false) })
		}
	case 16:
		name = "etcd down"
		w.etcd.SetDown(true)
		later(func() { w.etcd.SetDown(false) })
	case 17:
		name = "compact"
		w.etcd.Compact()
	case 18:
		name = "disk"
		w.mu.Lock()
		m.stuck = time.Now().Add(long)
		w.mu.Unlock()
	case 19:
		name = "clock"
		w.mu.Lock()
		m.skew = []time.Duration{-time.Second, time.Minute, -time.Hour, 0}[three]
		w.lossy = w.lossy || m.skew > 0
		w.mu.Unlock()
	case 20, 21:
		name = "switch"
		if p != nil {
			bg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				_, err := p.agent.Failover(ctx, Planned)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.say("%s switch: %v", m.id[:4], err)
			})
		}
	case 22:
		name = "force"
		w.mu.Lock()
		w.lossy = true // the old primary may go on answering reads until it hears of it
		w.mu.Unlock()
		if p != nil {
			bg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				_, _ = p.agent.Failover(ctx, Forced)
			})
		}
	case 23:
		name = "drain"
		if p != nil {
			bg.Go(func() { w.upgrade(m, p) })
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[name]++
	w.say("fault %s of %s (%s) for %s", name, m.id[:4], other.id[:4], long)
}

// upgrade ends a process as a person does, and starts another.
func (w *world) upgrade(m *machine, p *proc) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := p.agent.Drain(ctx)
	w.mu.Lock()
	w.say("%s drained: %v", m.id[:4], err)
	clean := m.proc == p && p.paused == nil
	w.mu.Unlock()
	if !clean {
		return
	}
	w.kill(m)
	w.mu.Lock()
	m.durable, m.running = len(m.log), false
	w.mu.Unlock()
	w.revive(m)
}

// rollBack ends a machine's process and puts an older image of its disk back, if another has what its shard acknowledged.
func (w *world) rollBack(m *machine) {
	w.kill(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	tm, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	n := tm.Nodes[m.id]
	if s := tm.Shard(n.Shard); s != nil && !slices.ContainsFunc(s.InSync, func(id topology.NodeID) bool { return id != m.id && !w.machine(id).stale }) {
		return
	}
	if had := len(m.log); m.rollBack(n.Start) {
		w.faults["rolled back"]++
		w.say("%s rolled back from %d to %d", m.id[:4], had, len(m.log))
	}
}

// revive gives a machine power and a process, if it has none.
func (w *world) revive(m *machine) {
	w.mu.Lock()
	again := m.proc == nil
	m.up = true
	w.mu.Unlock()
	if again {
		w.boot(m)
	}
}

func (w *world) freeze(p *proc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p != nil && !p.dead && p.paused == nil {
		p.paused = make(chan struct{})
		p.etcd.Cut(true, true)
	}
}

func (w *world) thaw(p *proc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p != nil && !p.dead && p.paused != nil {
		p.etcd.Cut(false, false)
		close(p.paused)
		p.paused = nil
	}
}

func (w *world) cut(a, b *machine, there, back, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a == b {
		return
	}
	if there {
		w.cuts[[2]*machine{a, b}] = cut
	}
	if back {
		w.cuts[[2]*machine{b, a}] = cut
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.etcd.SetDown(false)
	for _, m := range w.machines {
		w.revive(m)
		w.thaw(m.proc)
		w.mu.Lock()
		m.stuck, m.skew = time.Time{}, 0
		m.proc.etcd.SetFaults(registrytest.Faults{})
		m.proc.etcd.Cut(false, false)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cuts)
	w.etcdFaults = registrytest.Faults{}
	w.say("healed")
}

// run is one simulation.
func run(t *testing.T, seed uint64, broken rules, rolls, trace bool) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, shape{}, broken, rolls, trace)
		defer func() {
			close(w.over)
			for _, m := range w.machines {
				w.kill(m)
			}
			w.flushes.Wait()
		}()
		if !w.settled(30 * time.Second) {
			return
		}
		var clients, faults sync.WaitGroup
		for i := range 3 + w.rng.IntN(4) {
			clients.Go(func() { w.client(i, seed) })
		}
		w.mu.Lock()
		if w.rng.IntN(2) == 0 {
			w.etcdFaults = registrytest.Faults{Delay: time.Duration(w.rng.IntN(40)) * time.Millisecond, RequestLost: .02, AnswerLost: .05, Late: .02, LateBy: 3 * time.Second, WatchLost: .02}
			for _, m := range w.machines {
				m.proc.etcd.SetFaults(w.etcdFaults)
			}
		}
		n := 4 + w.rng.IntN(12)
		calm := 300 + w.rng.IntN(4000)
		w.mu.Unlock()
		for range n {
			w.fault(&faults)
			w.mu.Lock()
			d := time.Duration(w.rng.IntN(calm)) * time.Millisecond
			w.mu.Unlock()
			time.Sleep(d)
		}
		faults.Wait()
		w.heal()
		w.mu.Lock()
		before := w.answered
		w.mu.Unlock()
		if w.settled(60 * time.Second) {
			end := time.Now().Add(30 * time.Second)
			for done := false; !done; time.Sleep(100 * time.Millisecond) {
				w.mu.Lock()
				if done = w.answered > before+20; !done && time.Now().After(end) {
					w.fail("nothing is acknowledged behind the last fault")
					done = true
				}
				w.mu.Unlock()
			}
		}
		close(w.stop)
		clients.Wait()
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.failures) == 0 {
			w.check()
		}
	})
	return w
}

// check looks at what is in the end. mu is held.
func (w *world) check() {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	if faults := m.Faults(); len(faults) > 0 {
		w.fail("the map: %v", faults)
	}
	for _, s := range m.Shards {
		p := w.machine(s.Primary)
		for _, n := range m.Members(s.ID) {
			if o := w.machine(n.ID); !slices.Equal(o.log, p.log) {
				w.fail("shard %d: %s has %d changes, its primary %s %d, or others", s.ID, n.ID[:4], len(o.log), p.id[:4], len(p.log))
			}
		}
		seen := map[int64]bool{}
		for _, r := range p.log {
			if seen[r.id] || !w.attempts[r.id] {
				w.fail("shard %d: change %d is there twice, or was refused", s.ID, r.id)
			}
			seen[r.id] = true
		}
		for id, shard := range w.promised {
			if shardID(shard) == s.ID && !seen[id] {
				w.fail("shard %d: change %d was acknowledged and is lost", s.ID, id)
			}
		}
	}
	if w.lossy {
		return
	}
	for key, history := range w.history {
		if r := w.linearizable(history); r == porcupine.Illegal {
			w.fail("key %d: %d operations are not linearizable", key, len(history))
			for _, op := range history {
				w.say("key %d: %s", key, op)
			}
		}
	}
}

// TestSimulation runs whole clusters through random faults. SEEDS says how many, SEED replays one and tells all of it. The
// seed decides the cluster, the load and the faults; in which order goroutines run that are due at the same moment, it
// does not, so a failure may need some runs of its seed to come again.
func TestSimulation(t *testing.T) { simulate(t, 120, false) }

// TestRollBack does the same with machines that are rolled back to older images of their disks, in place of machines that
// lose power: an older copy must not lead, must not count as in sync, and comes back by itself.
func TestRollBack(t *testing.T) { simulate(t, 60, true) }

func simulate(t *testing.T, n int, rolls bool) {
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := run(t, seed, allRules, rolls, true)
		t.Log("\n" + w.trace.String())
		if len(w.failures) > 0 {
			t.Fatalf("%q", w.failures)
		}
		return
	}
	if testing.Short() {
		n = 12 // with the race detector
	}
	if text := os.Getenv("SEEDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	first := rand.Uint64() >> 20
	var mu sync.Mutex
	answered, faults, histories := 0, map[string]int{}, 0
	t.Run("seeds", func(t *testing.T) {
		for part := range 2 {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < n && !t.Failed(); i += 2 {
					w := run(t, first+uint64(i), allRules, rolls, false)
					for _, f := range w.failures {
						t.Errorf("SEED=%d: %s", w.seed, f)
					}
					mu.Lock()
					answered += w.answered
					if !w.lossy {
						histories++
					}
					for name, n := range w.faults {
						faults[name] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d runs from seed %d: %d commands answered, %d with histories checked, faults %v", n, first, answered, histories, faults)
}
