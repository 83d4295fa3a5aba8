package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
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
	p.alone, p.both, p.floor = false, false, 0
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
	if p.m.healing {
		p.w.mu.Unlock()
		return errors.New("simulated: the node is healing")
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

func (p *proc) BeginEmpty() error {
	if !p.enter() {
		return errDead
	}
	defer p.w.mu.Unlock()
	p.m.healing = false
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
	p.quiet()
	p.depose()
	p.kind, p.epochOf, p.seen = following, epoch, epoch
	ctx, cancel := context.WithCancel(context.Background())
	p.unfollow = cancel
	p.w.flushes.Go(func() { p.follow(ctx, p.w.machine(id), epoch) })
	return nil
}

// TakeLastFrames: simulated directories are never damaged.
func (p *proc) TakeLastFrames(context.Context, map[topology.NodeID]string) ([]topology.NodeID, error) {
	return nil, errors.New("no node gives the end of its log")
}

func (p *proc) Rest(string) {
	if p.enter() {
		defer p.w.mu.Unlock()
		p.quiet()
		p.depose()
		if now := time.Now(); !now.Equal(p.restAt) {
			p.restAt, p.rests = now, 0
		}
		if p.rests++; p.rests > 100 {
			p.w.fail("%s rests again and again, without a pause", p.name)
			return
		}
		p.note() // as the host's role may have changed
	}
}

// quiet wants that a primary serves no reads when it gives its role up. mu is held.
func (p *proc) quiet() {
	if s := p.standing; p.kind == leading && s.Primary && s.Reads == "" {
		p.w.fail("%s gives its role up while it serves reads as the primary of epoch %d", p.name, p.epochOf)
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

func (p *proc) Alone(alone, both bool) {
	if p.enter() {
		defer p.w.mu.Unlock()
		if both && !p.both {
			p.floor = p.confirmed
		}
		p.alone, p.both = alone, both
		p.confirm()
	}
}

func (p *proc) Careful(on bool) {
	if p.enter() {
		p.careful = on
		p.w.mu.Unlock()
	}
}

// told is how far replicas are told that the log is confirmed. mu is held.
func (p *proc) told() int {
	if p.alone {
		return min(p.confirmed, p.m.durable)
	}
	return p.confirmed
}

func (p *proc) Hurry(offset uint64) {
	if !p.enter() {
		return
	}
	defer p.w.mu.Unlock()
	if int(offset) <= p.m.durable {
		return
	}
	if p.hurried {
		p.again = true
		return
	}
	p.hurried = true
	p.w.flushes.Go(func() {
		for more := true; more; {
			if !p.enter() {
				return
			}
			n, took := len(p.m.log), p.m.syncs // changes that come during the sync are not synced
			p.again = false
			p.w.mu.Unlock()
			if took == 0 {
				took = time.Duration(1+p.w.random(8)) * time.Millisecond
			}
			time.Sleep(took)
			if !p.enter() {
				return
			}
			hangs := p.m.unsynced || p.m.hangs || p.m.failed
			if !hangs {
				p.synced(min(n, len(p.m.log)))
			}
			more = hangs || p.again
			p.hurried = more
			p.w.mu.Unlock()
		}
	})
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

// ackOf updates the knowledge of a replica. mu is held.
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
		s = LogState{Epoch: m.epoch(), Position: uint64(len(m.log) + m.unwritten), Written: uint64(len(m.log)), Durable: uint64(m.durable), Confirmed: uint64(p.confirmed), Behind: m.behind, Healing: m.healing, ReplID: fmt.Sprint(m.epoch()), Hangs: m.hangs}
		if m.failed {
			s.Err = errors.New("simulated: the disk failed")
		}
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

// confirm is the offset that all required nodes have. mu is held.
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
	if p.both {
		c = min(c, max(p.floor, p.m.durable))
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
	if p.kind == leading && p.known && len(p.required) == 0 && !p.both {
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
