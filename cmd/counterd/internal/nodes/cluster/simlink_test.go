package cluster

import (
	"context"
	"slices"
	"time"
)

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
	// arrive lets a message take its way. false: it does not come. mu is not held before, but behind. Sent frames arrive,
	// though their sender is dead.
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
	acked, most := -1, 0
	has := func() int {
		switch {
		case w.durable:
			return p.m.durable
		case p.careful:
			return max(most, p.m.durable)
		}
		most = len(p.m.log)
		return most
	}
	for !c.broken && !q.dead && !p.dead && ctx.Err() == nil {
		m := p.m
		if acked == has() && len(m.log) == len(q.m.log) {
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
		// Frames of the primary's present log.
		frames, terms, end, sent, confirmed := slices.Clone(q.m.log[len(m.log):]), slices.Clone(q.m.terms), len(q.m.log), time.Now(), q.told()
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
		has := has()
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
