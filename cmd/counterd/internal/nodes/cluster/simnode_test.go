package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// proc is a process: the agent's Host over the machine's log.
type proc struct {
	m     *machine
	w     *world
	name  string
	agent *Agent
	reg   registry.Registry
	etcd  *registrytest.Link
	rng   *rand.Rand

	dead     bool
	paused   chan struct{} // closed when it goes on; nil: it runs
	gone     chan struct{} // closed when it is dead
	notice   chan struct{}
	standing *Standing

	kind      roleKind
	epochOf   uint64 // of the role
	seen      uint64 // highest epoch
	unfollow  func()
	link      LinkState
	required  []topology.NodeID
	known     bool
	alone     bool // as the host was told
	both      bool // the same: confirmed changes are durable here too
	floor     int  // confirmed before that
	acks      map[topology.NodeID]*acks
	confirmed int
	doubt     error
	waiters   []*waiter
	careful   bool          // as the host was told
	hurried   bool          // a sync that was asked for is under way
	again     bool          // another one follows
	held      chan struct{} // closed when writes go on; nil: they do

	commitAt time.Time // of the last transaction
	commits  int       // at that moment
	restAt   time.Time // of the last Rest
	rests    int       // at that moment
}

type acks struct {
	c       *conn
	has     int
	heard   time.Time
	caught  time.Time
	waiting time.Time
}

// conn is a link between two processes, in an epoch.
type conn struct {
	from, to *proc // replica, primary
	broken   bool
}

// waiter is a client that waits for an offset.
type waiter struct {
	pos  int
	id   int64 // of a change; 0: a read
	done chan outcome
}

func (w *world) boot(m *machine) {
	w.mu.Lock()
	w.procs++
	m.running = true
	p := &proc{m: m, w: w, name: fmt.Sprint("p", w.procs), gone: make(chan struct{}), notice: make(chan struct{}, 1), etcd: registrytest.NewLink(w.rng.Uint64()),
		rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2)), acks: map[topology.NodeID]*acks{}}
	p.etcd.SetFaults(w.etcdFaults)
	p.reg = w.etcd.Open(p.etcd)
	m.proc = p
	w.mu.Unlock()
	address := string(m.id[:8]) + ":1"
	if m.copied {
		address = string(m.id[:8]) + ":2"
	}
	p.agent = New(Config{Registry: skewed{p.reg, p}, Host: p, Home: m, Address: address, Process: p.name, NodeTimeout: w.lease, SpareAfter: 15 * time.Second,
		RenewStart: w.renew(),
		Node:       topology.Node{Host: "h", Port: 1, Zone: m.zone, Version: "1"}, Log: w.logger(m)})
	p.agent.Start()
	w.flushes.Go(p.flush)
}

// flush makes the log durable now and then.
func (p *proc) flush() {
	for {
		every := time.Second
		if p.w.durable {
			every = time.Millisecond
		}
		select {
		case <-p.gone:
			return
		case <-p.w.over:
			return
		case <-time.After(every):
		}
		n, ok := 0, p.enter()
		if ok {
			if n = len(p.m.log); p.m.lazy {
				n = p.m.durable
			}
			if n == p.m.durable && p.w.durable {
				changed := p.m.changed
				p.w.mu.Unlock()
				select {
				case <-changed:
				case <-p.gone:
					return
				case <-p.w.over:
					return
				}
				continue
			}
			p.synced(n)
			p.w.mu.Unlock()
		}
	}
}

// synced makes the log durable up to n. mu is held.
func (p *proc) synced(n int) {
	p.m.durable = max(p.m.durable, n)
	p.confirm()
	p.resolve()
	p.m.grown()
}

// kill ends the process at once: frames that it has sent may still arrive.
func (w *world) kill(m *machine) {
	w.mu.Lock()
	p := m.proc
	if p == nil {
		w.mu.Unlock()
		return
	}
	m.proc, p.dead = nil, true
	close(p.gone)
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
	if p.unfollow != nil {
		p.unfollow()
	}
	p.etcd.Cut(false, true)
	w.mu.Unlock()
	p.agent.loop.stop()
	p.agent.loop.wg.Wait()
	_ = p.reg.Close()
}

// off takes the power from a machine: data that were not durable may be gone.
func (w *world) off(m *machine) {
	w.mu.Lock()
	m.up = false
	w.mu.Unlock()
	w.kill(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(m.log); n > m.durable {
		keep := m.durable
		if !w.strict {
			keep += w.rng.IntN(n - m.durable + 1)
		}
		for _, r := range m.log[keep:] {
			if c := w.copies[r.id]; c != nil {
				c[m] = true
			}
		}
		m.cut(keep)
	}
	if m.running && !w.durable && w.rules.behind {
		m.behind = true
	}
	w.mourn()
}

// enter waits while the process is stopped; then world.mu is held. false: it is dead, and mu is not held.
func (p *proc) enter() bool {
	for {
		p.w.mu.Lock()
		ch := p.paused
		switch {
		case p.dead:
			p.w.mu.Unlock()
			return false
		case ch == nil:
			return true
		}
		p.w.mu.Unlock()
		<-ch
	}
}

var (
	errDead  = errors.New("the process is dead")
	errHangs = errors.New("the disk hangs")
)
