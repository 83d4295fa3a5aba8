package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// rec is one change in a log: key is raised by one.
type rec struct {
	epoch uint64
	id    int64 // of the client's operation
	key   int
}

type term struct {
	epoch uint64
	start int
}

// machine is a computer with a disk, on which processes run one after another. world.mu guards it.
type machine struct {
	w    *world
	id   topology.NodeID
	zone string

	log     []rec
	at      []time.Time // when each was written
	durable int
	terms   []term // of the log, rising
	running bool   // what the disk says: a process did not end cleanly under this boot
	behind  bool
	hangs   bool // its disk: it takes neither changes nor a role
	cluster string
	starts  []topology.Start // of its note
	stale   bool             // its directory is an older copy, which has not caught up with a primary yet
	copied  bool             // it is another machine with a copy of the directory of the one with the same id

	images []image

	confirmation

	up      bool // has power
	stuck   time.Time
	proc    *proc         // nil: none runs
	changed chan struct{} // closed when the log has grown
	skew    time.Duration // of its clock, against leases
}

// confirmation is what a machine's directory knows to be confirmed in its shard: the node does not cut its log below it.
type confirmation struct {
	shard      topology.ShardID
	confirmed  int    // records
	confirmedE uint64 // epoch
}

func (m *machine) epoch() uint64 {
	if len(m.terms) == 0 {
		return 0
	}
	return m.terms[len(m.terms)-1].epoch
}

// cut shortens the log.
func (m *machine) cut(n int) {
	m.log, m.at, m.durable = m.log[:n:n], m.at[:n:n], min(m.durable, n)
	for len(m.terms) > 0 && m.terms[len(m.terms)-1].start > n {
		m.terms = m.terms[:len(m.terms)-1]
	}
}

// confirm is told that the log is confirmed up to n.
func (m *machine) confirm(epoch uint64, n int) {
	if n > m.confirmed {
		m.confirmed, m.confirmedE = n, epoch
	}
}

func (m *machine) append(r rec) {
	m.log, m.at = append(m.log, r), append(m.at, time.Now())
	m.grown()
}

func (m *machine) grown() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// image is a machine's disk at a moment.
type image struct {
	log     []rec
	at      []time.Time
	durable int
	terms   []term
	behind  bool
	stale   bool
	cluster string
	starts  []topology.Start
	confirmation
}

// keep takes an image of the machine's disk, running or not. world.mu is held.
func (m *machine) keep() {
	m.images = append(m.images, image{slices.Clone(m.log), slices.Clone(m.at), m.durable, slices.Clone(m.terms), m.behind, m.stale, m.cluster, m.starts, m.confirmation})
}

// rollBack puts an image back that was taken before etcd had the node's newest start; false: there is none. No process
// runs, and world.mu is held.
func (m *machine) rollBack(has topology.Start) bool {
	m.images = slices.DeleteFunc(m.images, func(i image) bool { return slices.Contains(i.starts, has) })
	if len(m.images) == 0 || has.Count == 0 {
		return false
	}
	i := m.images[m.w.rng.IntN(len(m.images))]
	m.images = nil
	m.log, m.at, m.durable, m.terms, m.behind, m.cluster, m.starts = i.log, i.at, i.durable, i.terms, i.behind, i.cluster, i.starts
	m.confirmation = i.confirmation
	m.stale = true
	return true
}

func (m *machine) has(id int64) bool {
	return slices.ContainsFunc(m.log, func(r rec) bool { return r.id == id })
}

// Node, Cluster and Join make it a Home.
func (m *machine) Node() topology.NodeID { return m.id }
func (m *machine) Cluster() string {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.cluster
}
func (m *machine) Join(cluster string) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.cluster = cluster
	return nil
}

func (m *machine) Starts() []topology.Start {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.starts
}

func (m *machine) SetStarts(list []topology.Start) error {
	time.Sleep(time.Duration(1+m.w.random(4)) * time.Millisecond)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.starts = list
	return nil
}

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
	acks      map[topology.NodeID]*acks
	confirmed int
	doubt     error
	waiters   []*waiter
	held      chan struct{} // closed when writes go on; nil: they do

	commitAt time.Time // of the last transaction
	commits  int       // at that moment
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
	p.agent = New(Config{Registry: skewed{p.reg, p}, Host: p, Home: m, Address: address, Process: p.name, NodeTimeout: 2 * time.Second, SpareAfter: 15 * time.Second,
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
			n = len(p.m.log)
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
			p.m.durable = max(p.m.durable, n)
			p.resolve()
			p.m.grown()
			p.w.mu.Unlock()
		}
	}
}

// skewed is a registry on a machine whose clock is wrong.
type skewed struct {
	registry.Registry
	p *proc
}

type skewedLease struct {
	registry.Lease
	p *proc
}

func (s skewed) Register(ctx context.Context, id topology.NodeID, ttl time.Duration, live topology.Live) (registry.Lease, error) {
	l, err := s.Registry.Register(ctx, id, ttl, live)
	if err != nil {
		return nil, err
	}
	return skewedLease{l, s.p}, nil
}

// Commit counts: who asks etcd again and again at the same moment does so for ever.
func (s skewed) Commit(ctx context.Context, c topology.Change) error {
	s.p.w.mu.Lock()
	if now := time.Now(); now != s.p.commitAt {
		s.p.commitAt, s.p.commits = now, 0
	}
	if s.p.commits++; s.p.commits > 20 {
		s.p.w.fail("%s commits again and again: %s", s.p.m.id[:4], c.What)
		s.p.w.mu.Unlock()
		time.Sleep(time.Second)
		s.p.w.mu.Lock()
	}
	s.p.w.mu.Unlock()
	err := s.Registry.Commit(ctx, c)
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	s.p.w.verify(c.What)
	return err
}

func (l skewedLease) Deadline() time.Time {
	l.p.w.mu.Lock()
	defer l.p.w.mu.Unlock()
	return l.Lease.Deadline().Add(l.p.m.skew)
}

// kill ends the process at once: what it has sent may arrive yet.
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

// off takes the power from a machine: what was not durable may be gone.
func (w *world) off(m *machine) {
	w.mu.Lock()
	m.up = false
	w.mu.Unlock()
	w.kill(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(m.log); n > m.durable {
		m.cut(m.durable + w.rng.IntN(n-m.durable+1))
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

func (p *proc) note() {
	select {
	case p.notice <- struct{}{}:
	default:
	}
}

// depose gives a role up. mu is held.
func (p *proc) depose() {
	if p.unfollow != nil {
		p.unfollow()
		p.unfollow = nil
	}
	p.kind, p.known, p.required, p.confirmed, p.link = resting, false, nil, 0, LinkState{Newer: p.link.Newer}
	for _, a := range p.acks {
		if a.c != nil {
			a.c.broken = true
		}
	}
	p.acks = map[topology.NodeID]*acks{}
	p.answer(func(*waiter) outcome { return uncertain })
}

func (p *proc) Lead(epoch uint64) error {
	if !p.enter() {
		return errDead
	}
	if epoch <= p.m.epoch() || epoch < p.seen {
		p.w.mu.Unlock()
		return fmt.Errorf("epoch %d is over", epoch)
	}
	p.depose()
	p.seen = epoch
	p.w.mu.Unlock()
	time.Sleep(time.Duration(1+p.w.random(4)) * time.Millisecond)
	if !p.enter() {
		return errDead
	}
	defer p.w.mu.Unlock()
	if p.m.behind { // it may have lost power while its transaction was on the way
		p.w.mourn()
	}
	p.m.terms = append(p.m.terms, term{epoch, len(p.m.log)})
	p.m.durable, p.m.behind, p.m.stale = len(p.m.log), false, false
	p.kind, p.epochOf, p.doubt = leading, epoch, nil
	p.w.led(p)
	return nil
}

func (p *proc) Shard(id topology.ShardID, unclean uint64) {
	if p.enter() {
		if m := p.m; m.shard != id || m.confirmedE < unclean {
			m.shard, m.confirmed, m.confirmedE = id, 0, unclean
		}
		p.w.mu.Unlock()
	}
}

func (p *proc) Follow(id topology.NodeID, _ string, epoch uint64) error {
	if !p.enter() {
		return errDead
	}
	defer p.w.mu.Unlock()
	if epoch < p.seen {
		return fmt.Errorf("epoch %d is over", epoch)
	}
	if p.m.hangs {
		p.depose()
		return errHangs
	}
	if p.kind == following && p.epochOf == epoch && p.unfollow != nil {
		return nil
	}
	p.depose()
	p.kind, p.epochOf, p.seen = following, epoch, epoch
	ctx, cancel := context.WithCancel(context.Background())
	p.unfollow = cancel
	p.w.flushes.Go(func() { p.follow(ctx, p.w.machine(id), epoch) })
	return nil
}

func (p *proc) Rest(string) {
	if p.enter() {
		p.depose()
		p.w.mu.Unlock()
	}
}

func (p *proc) Require(ids []topology.NodeID) {
	if p.enter() {
		defer p.w.mu.Unlock()
		if p.kind == leading {
			p.required, p.known = ids, true
			p.confirm()
		}
	}
}

func (p *proc) Doubt(err error) {
	if p.enter() {
		p.doubt = err
		p.resolve()
		p.w.mu.Unlock()
	}
}

func (p *proc) Replica(id topology.NodeID) (r ReplicaState) {
	if p.enter() {
		defer p.w.mu.Unlock()
		a := p.ackOf(id)
		if a == nil {
			return r
		}
		r = ReplicaState{Connected: a.c != nil && !a.c.broken, Heard: a.heard, Has: uint64(a.has), CaughtUp: a.caught, Waiting: a.waiting}
		if a.c != nil {
			r.Process = a.c.from.name
		}
	}
	return r
}

// ackOf brings what is known of a replica up to now. mu is held.
func (p *proc) ackOf(id topology.NodeID) *acks {
	a := p.acks[id]
	if a == nil {
		if !slices.Contains(p.required, id) {
			return nil
		}
		a = &acks{}
		p.acks[id] = a
	}
	switch n := len(p.m.log); {
	case a.has >= n && a.c != nil:
		a.waiting = time.Time{}
	case a.waiting.IsZero():
		a.waiting = time.Now()
	case a.has > 0 && a.has < n && p.m.at[a.has].After(a.waiting):
		a.waiting = p.m.at[a.has]
	}
	return a
}

func (p *proc) Link() (s LinkState) {
	if p.enter() {
		s = p.link
		p.w.mu.Unlock()
	}
	return s
}

func (p *proc) Log() (s LogState) {
	if p.enter() {
		m := p.m
		s = LogState{Epoch: m.epoch(), Written: uint64(len(m.log)), Durable: uint64(m.durable), Confirmed: uint64(p.confirmed), Behind: m.behind, ReplID: fmt.Sprint(m.epoch()), Hangs: m.hangs}
		p.w.mu.Unlock()
	}
	return s
}

func (p *proc) HoldWrites(limit time.Duration) (release func(), err error) {
	if !p.enter() {
		return nil, errDead
	}
	defer p.w.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	release = func() {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		if p.held == held {
			p.held = nil
			close(held)
		}
	}
	time.AfterFunc(limit, release)
	return release, nil
}

func (p *proc) Serve(s *Standing) {
	if p.enter() {
		p.standing = s
		p.w.mu.Unlock()
	}
}

func (p *proc) Notice() <-chan struct{} { return p.notice }

// confirm is what all have who are required. mu is held.
func (p *proc) confirm() {
	if p.kind != leading || !p.known {
		return
	}
	c := len(p.m.log)
	for _, id := range p.required {
		has := 0
		if a := p.acks[id]; a != nil {
			has = a.has
		}
		c = min(c, has)
	}
	p.confirmed = c
	p.m.confirm(p.epochOf, c)
	p.resolve()
}

// resolve answers who waits no longer. mu is held.
func (p *proc) resolve() {
	p.confirmAlone()
	p.answer(func(wt *waiter) outcome {
		switch {
		case p.kind == leading && p.known && wt.pos <= p.confirmed && (!p.w.durable || wt.pos <= p.m.durable):
			return acknowledged
		case p.doubt != nil:
			return uncertain
		}
		return pending
	})
}

// confirmAlone follows the own log where nobody else is required. mu is held.
func (p *proc) confirmAlone() {
	if p.kind == leading && p.known && len(p.required) == 0 {
		p.confirmed = len(p.m.log)
		p.m.confirm(p.epochOf, p.confirmed)
	}
}

func (p *proc) answer(of func(*waiter) outcome) {
	p.waiters = slices.DeleteFunc(p.waiters, func(wt *waiter) bool {
		o := of(wt)
		if o == pending {
			return false
		}
		if o == acknowledged && wt.id != 0 {
			p.w.acked(p, wt.id)
		}
		wt.done <- o
		return true
	})
}

// learn hears of an epoch. mu is held.
func (p *proc) learn(epoch uint64) {
	if epoch <= p.seen || epoch <= p.link.Newer {
		return
	}
	p.link.Newer = epoch
	p.note()
}

// common is how far two logs agree by their terms.
func common(a, b *machine) int {
	end := func(m *machine, i int) int {
		if i+1 < len(m.terms) {
			return m.terms[i+1].start
		}
		return len(m.log)
	}
	n := 0
	for i := 0; i < min(len(a.terms), len(b.terms)) && a.terms[i] == b.terms[i]; i++ {
		n = min(end(a, i), end(b, i))
	}
	return n
}

// follow is a replica's link, until it is told otherwise.
func (p *proc) follow(ctx context.Context, to *machine, epoch uint64) {
	w, pause := p.w, func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for pause(time.Duration(1+w.random(5)) * time.Millisecond) {
		if !p.enter() {
			return
		}
		if ctx.Err() != nil {
			w.mu.Unlock()
			return
		}
		refused, wait, q := false, 50*time.Millisecond, to.proc
		switch {
		case !to.up || w.cutOff(p.m, to) || w.cutOff(to, p.m):
			wait = 200 * time.Millisecond
		case q == nil:
			refused = true
		case q.paused != nil:
			wait = 200 * time.Millisecond
		case q.seen > epoch && w.rules.fence:
			p.learn(q.seen)
		default:
			q.learn(epoch)
			if q.kind == leading && q.epochOf == epoch {
				p.stream(ctx, q) // releases mu, and takes it again
				if p.dead || ctx.Err() != nil {
					w.mu.Unlock()
					return
				}
			}
		}
		if refused != p.link.Refused {
			p.link.Refused = refused
			p.note()
		}
		w.mu.Unlock()
		if !pause(wait) {
			return
		}
	}
}

// stream is one connection. mu is held, and is so again on return.
func (p *proc) stream(ctx context.Context, q *proc) {
	w, c := p.w, &conn{from: p, to: q}
	at := common(p.m, q.m)
	for i := range at {
		if p.m.log[i] != q.m.log[i] {
			w.fail("%s and %s agree by their terms up to %d, and differ at %d: %v %v", p.m.id[:4], q.m.id[:4], at, i, p.m.log[i], q.m.log[i])
			break
		}
	}
	if at < len(p.m.log) && at < p.m.confirmed {
		if !w.rolledBack {
			w.fail("%s lacks what %s knows to be confirmed in epoch %d: they agree up to %d, want %d", q.m.id[:4], p.m.id[:4], p.m.confirmedE, at, p.m.confirmed)
		}
		p.link.Lacks = p.m.confirmedE
		p.note()
		return
	}
	if at < len(p.m.log) {
		p.m.cut(at)
		p.m.behind = true
	}
	target := len(q.m.log)
	p.link.Connected, p.link.Refused, p.link.Lacks = true, false, 0
	if old := q.acks[p.m.id]; old != nil {
		if old.c != nil {
			old.c.broken = true
		}
		q.acks[p.m.id] = &acks{c: c, waiting: old.waiting}
	} else {
		q.acks[p.m.id] = &acks{c: c}
	}
	q.note()
	p.note()
	epoch := p.epochOf
	// arrive lets a message take its way. false: it does not come. mu is not held before, but behind. What was sent comes,
	// though its sender is dead.
	arrive := func(from, to *proc) bool {
		time.Sleep(time.Duration(100+w.random(2000)) * time.Microsecond)
		for lost := time.Now(); ; {
			if !to.enter() {
				w.mu.Lock()
				return false
			}
			if time.Since(lost) > 2500*time.Millisecond {
				return false
			}
			if !w.cutOff(from.m, to.m) && !to.m.stuck.After(time.Now()) {
				return true
			}
			w.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	}
	acked := -1
	for !c.broken && !q.dead && !p.dead && ctx.Err() == nil {
		m := p.m
		has := len(m.log)
		if w.durable {
			has = m.durable
		}
		if acked == has && len(m.log) == len(q.m.log) {
			if time.Since(q.acks[m.id].caught) > 100*time.Millisecond {
				acked = -1 // a ping, and its acknowledgement
			} else {
				mine, theirs := m.changed, q.m.changed
				w.mu.Unlock()
				select {
				case <-mine:
				case <-theirs:
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
				case <-p.gone:
				case <-q.gone:
				}
				w.mu.Lock()
				continue
			}
		}
		// Frames of what the primary has now.
		frames, terms, end, sent, confirmed := slices.Clone(q.m.log[len(m.log):]), slices.Clone(q.m.terms), len(q.m.log), time.Now(), q.confirmed
		w.mu.Unlock()
		if !arrive(q, p) || ctx.Err() != nil || p.epochOf != epoch {
			break
		}
		for _, f := range frames {
			m.append(f)
		}
		m.terms = m.terms[:0:0]
		for _, t := range terms {
			if t.start <= len(m.log) {
				m.terms = append(m.terms, t)
			}
		}
		m.confirm(epoch, confirmed)
		if len(m.log) >= target {
			m.behind, m.stale = false, false
		}
		if has = len(m.log); w.durable {
			has = m.durable
		}
		w.mu.Unlock()
		if !arrive(p, q) || q.kind != leading {
			break
		}
		a := q.acks[m.id]
		if a == nil && !w.rules.ackEpoch {
			a = &acks{c: c}
			q.acks[m.id] = a
		}
		if w.rules.ackEpoch && q.epochOf != epoch || a == nil || w.rules.ackEpoch && a.c != c {
			break
		}
		a.has, acked, a.heard = has, has, time.Now()
		if has >= end {
			a.caught = sent
		}
		q.ackOf(m.id)
		q.confirm()
	}
	c.broken = true
	if a := q.acks[p.m.id]; a != nil && a.c == c {
		q.note()
	}
	p.link.Connected = false
	p.note()
}
