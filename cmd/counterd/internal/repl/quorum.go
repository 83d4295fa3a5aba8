package repl

import (
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
)

// quorum is what a node that leads in an epoch knows of the replicas that must have a change before it is acknowledged.
// It tells the store how far all of them are, as their acknowledgements come.
//
// Invariants: an acknowledgement counts that came by a link of the epoch, and the last of the links of a node. Until
// Require was called in the epoch nothing is confirmed.
//
// Under mu the store's Confirm is called.
type quorum struct {
	store func() *counter.Store
	self  func() string // this node's id

	mu       sync.Mutex
	epoch    uint64 // that this node leads in; 0: it does not
	required []string
	known    bool // required was told in this epoch
	acks     map[string]*acked
	last     uint64 // what was confirmed last
}

// acked is how far a node says it is.
type acked struct {
	peer             *Peer // its link; nil: it has none
	process          string
	written, durable uint64
	at               time.Time // of the last acknowledgement
	caughtUp         time.Time // see Replica
	// mark is where the log ended at markAt, which is the moment from which on what is missing is waited for.
	mark   uint64
	markAt time.Time
}

// has is the offset that counts, by what an acknowledgement of this node means.
func (a *acked) has(durable bool) uint64 {
	if durable {
		return a.durable
	}
	return a.written
}

// look notes whether the node has caught up with the last mark, and sets the next one.
func (a *acked) look(log *counter.Replication, now time.Time) {
	if a.has(log.AcksDurable()) < a.mark {
		return
	}
	if !a.markAt.IsZero() && a.peer != nil {
		a.caughtUp = a.markAt
	}
	a.mark, a.markAt = log.Visible(), now
	if a.peer != nil && a.has(log.AcksDurable()) >= a.mark {
		a.caughtUp = now
	}
}

// begin forgets everything: this node leads in an epoch from now on; 0: it does not, and nothing is confirmed any more.
func (q *quorum) begin(epoch uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.epoch, q.required, q.known, q.acks, q.last = epoch, nil, false, map[string]*acked{}, 0
}

// leads is the epoch that this node leads in; 0: it does not lead.
func (q *quorum) leads() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.epoch
}

// halt confirms nothing more, if this node leads in an epoch below one that was seen: another leads, or will.
func (q *quorum) halt(seen uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.epoch == 0 || q.epoch >= seen {
		return
	}
	q.epoch, q.known = 0, false
	q.store().Replication().Confirm(0)
}

// require tells who must have what is acknowledged from now on.
func (q *quorum) require(ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.epoch == 0 {
		return
	}
	self := q.self()
	q.required = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == self })
	q.known = true
	log, now := q.store().Replication(), time.Now()
	for _, id := range q.required {
		if q.acks[id] == nil {
			q.acks[id] = &acked{mark: log.Visible(), markAt: now}
		}
	}
	q.confirm()
}

// confirm tells the store. REQUIRES: mu.
func (q *quorum) confirm() {
	if q.epoch == 0 || !q.known {
		return
	}
	log := q.store().Replication()
	least, durable := uint64(counter.Everywhere), log.AcksDurable()
	for _, id := range q.required {
		least = min(least, q.acks[id].has(durable))
	}
	if least != q.last {
		q.last = least
		log.Confirm(least)
	}
}

// joined begins a link: what the node said by another one does not count any more, as it may have lost it.
func (q *quorum) joined(p *Peer) {
	if p.nodeID == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.epoch == q.epoch && q.epoch != 0 {
		now := acked{peer: p, process: p.process, mark: 1} // of an end that is not known yet
		if was := q.acks[p.nodeID]; was != nil {
			now.mark, now.markAt, now.caughtUp = max(was.mark, 1), was.markAt, was.caughtUp
		}
		q.acks[p.nodeID] = &now
	}
}

// left ends a link. What the node had it has.
func (q *quorum) left(p *Peer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.acks[p.nodeID]; a != nil && a.peer == p {
		a.peer = nil
	}
}

// ack takes an acknowledgement.
func (q *quorum) ack(p *Peer, written, durable uint64) {
	if p.nodeID == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.acks[p.nodeID]
	if q.epoch == 0 || p.epoch != q.epoch || a == nil || a.peer != p {
		return
	}
	a.written, a.durable, a.at = written, durable, time.Now()
	q.confirm()
	a.look(q.store().Replication(), a.at)
}

// Acked is how far a node's acknowledgements are in the epoch that this node leads in, and when the last one came. ok
// tells whether it is connected: else they are those of the link before.
func (ps *Peers) Acked(id string) (written, durable uint64, at time.Time, ok bool) {
	q := &ps.quorum
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.acks[id]
	if a == nil {
		return 0, 0, time.Time{}, false
	}
	return a.written, a.durable, a.at, a.peer != nil
}

// Replica is what a node that leads knows of one that follows it, or is required.
type Replica struct {
	Connected bool
	Process   string // of the last link: its Node.Process
	Has       uint64 // what it has acknowledged, written or durable as this node's appendfsync wants it
	// CaughtUp is the last moment at which it had, by now, all that there was then; zero: none in this epoch.
	CaughtUp time.Time
	// Waiting is about since when something that is written waits for its acknowledgement; zero: nothing does.
	Waiting time.Time
}

// Replica describes a node. Waiting is as exact as it is asked for often.
func (ps *Peers) Replica(id string) (r Replica) {
	q := &ps.quorum
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.acks[id]
	if a == nil || q.epoch == 0 {
		return r
	}
	log := q.store().Replication()
	a.look(log, time.Now())
	r = Replica{Connected: a.peer != nil, Process: a.process, Has: a.has(log.AcksDurable()), CaughtUp: a.caughtUp}
	if r.Has < a.mark {
		r.Waiting = a.markAt
	}
	return r
}

// ProcessOf is the name of the process (Node.Process) whose acknowledgements Acked tells; empty: there are none.
func (ps *Peers) ProcessOf(id string) string {
	q := &ps.quorum
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.acks[id]; a != nil {
		return a.process
	}
	return ""
}
