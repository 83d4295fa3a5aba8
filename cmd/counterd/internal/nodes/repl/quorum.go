package repl

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
)

// quorum is a primary's knowledge, in an epoch, of the replicas that must have a change before it is acknowledged. It
// tells the store how far all of them are, as their acknowledgements come.
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
	last     uint64      // the offset confirmed last
	alone    atomic.Bool // no other node may be in sync
	both     bool        // confirmed changes are durable here too, but for those that were confirmed before
	before   uint64      // the offset up to which that was
}

// acked is how far a node says it is.
type acked struct {
	peer             *Peer // its link; nil: it has none
	process          string
	written, durable uint64
	at               time.Time // of the last acknowledgement
}

// has is the offset that counts, by the meaning of this node's acknowledgements.
func (a *acked) has(durable bool) uint64 {
	if durable {
		return a.durable
	}
	return a.written
}

// begin forgets everything: this node leads in an epoch from now on; 0: it does not, and nothing is confirmed any more.
func (q *quorum) begin(epoch uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.epoch, q.required, q.known, q.acks, q.last = epoch, nil, false, map[string]*acked{}, 0
	q.alone.Store(false)
	q.both, q.before = false, 0
}

// goAlone sets alone and both, from now on.
func (q *quorum) goAlone(alone, both bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if both && !q.both {
		q.before = min(q.last, q.store().Replication().Written())
	}
	q.alone.Store(alone)
	q.both = both
	q.confirm()
}

// leads is the epoch that this node leads in; 0: it does not lead.
func (q *quorum) leads() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.epoch
}

// require sets the nodes that must have a change before it is acknowledged, from now on.
func (q *quorum) require(ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.epoch == 0 {
		return
	}
	self := q.self()
	q.required = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == self })
	q.known = true
	for _, id := range q.required {
		if q.acks[id] == nil {
			q.acks[id] = &acked{}
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
	if q.both {
		least = min(least, max(q.before, log.Durable()))
	}
	if least != q.last {
		q.last = least
		log.Confirm(least)
	}
}

// joined begins a link: acknowledgements on an earlier link no longer count, as the node may have lost the data.
func (q *quorum) joined(p *Peer) {
	if p.nodeID == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.epoch == q.epoch && q.epoch != 0 {
		q.acks[p.nodeID] = &acked{peer: p, process: p.process}
	}
}

// left ends a link. The node keeps its data.
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
}

// Alone tells whether the cluster may have no other node in sync than this one. Then replicas are told of confirmed changes only as far as these are durable here.
// With both set, changes are also confirmed only as far as they are durable here, besides those that were confirmed before; calling it again confirms changes that became
// durable since. It is in force on return. A term begins with neither.
func (ps *Peers) Alone(alone, both bool) { ps.quorum.goAlone(alone, both) }

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

// Safe is the log offset up to which a feed may show changes: no crash of one node takes these back, and in a cluster no failover.
// A primary's own disk has them, durably, and in a cluster all nodes that must have them. A replica's own disk has them, and the
// node that it follows has said that they are safe, on the present link or the last one (message C). So a replica shows nothing new
// until a link has told that. A node that is to follow counts as a replica, also while its disk keeps it from becoming one.
//
// Without a cluster, another node that is made primary may lack them: see Have.
func (ps *Peers) Safe() uint64 {
	store := ps.node.host.Store()
	log := store.Replication()
	if _, linked := ps.node.Link(); linked || store.Replica() {
		return min(log.Durable(), ps.node.told.Load())
	}
	return min(log.Durable(), log.Confirmed())
}

// Hurry has Safe grow soon, for a client that waits for changes on a replica. Where they are durable here, the node that it follows has to make
// them so: with appendfsync no, nothing else would for hours. That node is asked with the next acknowledgement. A primary asks nobody.
func (ps *Peers) Hurry() { ps.node.hurries.Store(true) }

// Careful has this node, as a replica, acknowledge only changes that are durable here, besides those that it has acknowledged on its link, until it is called
// with false. When it returns, all that may have been acknowledged is in the log.
func (ps *Peers) Careful(on bool) { ps.node.careful.Store(on) }

// promised is the end of the log that a replica acknowledges. The ends are read before, so that all that a replica acknowledges has been written when it
// becomes careful.
func (s *session) promised(written, durable uint64) uint64 {
	if s.node.careful.Load() {
		written = max(min(written, durable), s.acked.Load())
	}
	s.acked.Store(written)
	return written
}

// Hurry is the replica's request that the log becomes safe up to an offset, for clients that wait there. It is passed on to the node that
// this one follows. It is false in front of the stream, where it only asks whether the request is known.
func (p *Peer) Hurry(offset uint64) bool {
	if !p.fed() {
		return false
	}
	if offset > 0 && p.store != nil {
		p.store.Replication().Hurry(offset-1, false)
	}
	if p.peers.node != nil {
		p.peers.Hurry()
	}
	return true
}

// safe is the offset of message C. A replica of a cluster learns how far the log is confirmed, and its own disk adds to that. Where no other node may be
// in sync, a power failure of this node takes changes back that are not durable, although the replica has them.
func (p *Peer) safe() uint64 {
	log := p.store.Replication()
	if alone := log.Confirmed() == counter.Everywhere || p.peers.quorum.alone.Load(); p.nodeID != "" && !alone {
		return confirmedBy(log)
	}
	return p.peers.Safe()
}

// Have is the log offset up to which a number of replicas have acknowledged the log, as WAIT counts them; 0 if there are not
// so many.
func (ps *Peers) Have(replicas int) uint64 {
	far := make(map[Address]uint64)
	for _, i := range ps.Infos() {
		if at := (Address{i.IP, i.Port}); i.Online {
			far[at] = max(far[at], i.Applied)
		}
	}
	if replicas > len(far) {
		return 0
	}
	offsets := make([]uint64, 0, len(far))
	for _, offset := range far {
		offsets = append(offsets, offset)
	}
	slices.SortFunc(offsets, func(a, b uint64) int { return cmp.Compare(b, a) })
	return offsets[replicas-1]
}
