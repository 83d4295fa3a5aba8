package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
)

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
	runs, stopped := m.proc == p, p.paused != nil
	w.mu.Unlock()
	if !runs {
		return
	}
	// A process that was drained ends, also one that was stopped meanwhile: it has told the others that it leaves.
	w.kill(m)
	if !stopped {
		w.mu.Lock()
		m.durable, m.running = len(m.log), false
		w.mu.Unlock()
	}
	w.revive(m)
}

// rollBack ends a machine's process and puts an older image of its disk back, if another has the acknowledged changes of
// its shard. A request of the process that is still on its way to etcd is lost: a late one could leave this node as the only one in sync.
func (w *world) rollBack(m *machine) {
	w.mu.Lock()
	p := m.proc
	w.mu.Unlock()
	w.kill(m)
	if p != nil {
		p.etcd.Cut(true, true)
	}
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
