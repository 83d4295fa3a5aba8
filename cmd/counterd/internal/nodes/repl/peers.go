package repl

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/internal/monotonic"
)

// NewPeer makes a peer of a connection that sent its first REPLCONF or PSYNC.
func (ps *Peers) NewPeer(conn net.Conn) *Peer {
	p := &Peer{peers: ps, conn: conn, answers: make(chan compareAnswer, 1), gone: make(chan struct{})}
	p.acked.Store(int64(monotonic.Now()))
	return p
}

// Peers are the replicas of a node.
type Peers struct {
	node    *Node // nil: none, in tests
	quorum  quorum
	logger  logger
	timeout func() time.Duration
	Pause   func() // lets others have their turn: called every 0.1 ms while a replica is sent log that was written before; set before Feed

	Full, PartialOK, PartialErr atomic.Int64 // as INFO's sync_full, ...

	online   atomic.Int32 // replicas that are being fed
	comparer comparer

	mu   sync.Mutex // guards the rest
	list []*Peer
	news chan struct{} // closed and replaced when something was acknowledged, or a replica came or went
}

func (ps *Peers) add(p *Peer) {
	ps.mu.Lock()
	known := false
	for _, other := range ps.list {
		known = known || other == p
	}
	if !known {
		ps.list = append(ps.list, p)
	}
	ps.mu.Unlock()
	ps.changed()
}

func (ps *Peers) remove(p *Peer) {
	ps.mu.Lock()
	for i, other := range ps.list {
		if other == p {
			ps.list = append(ps.list[:i:i], ps.list[i+1:]...)
			break
		}
	}
	ps.mu.Unlock()
	ps.changed()
}

// changed wakes the goroutines in Wait.
func (ps *Peers) changed() {
	ps.mu.Lock()
	if ps.news != nil {
		close(ps.news)
		ps.news = nil
	}
	ps.mu.Unlock()
}

// All returns the peers, oldest first.
func (ps *Peers) All() []*Peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return append([]*Peer(nil), ps.list...)
}

// Infos describes all replicas.
func (ps *Peers) Infos() []PeerInfo {
	all := ps.All()
	infos := make([]PeerInfo, len(all))
	for i, p := range all {
		infos[i] = p.Info()
	}
	return infos
}

// replace closes the connections that p's replica had before: a connection that was cut on its side only stays here
// until repl-timeout.
func (ps *Peers) replace(p *Peer) {
	for _, other := range ps.All() {
		if other != p && other.online.Load() && other.process == p.process && p.process != "" {
			other.online.Store(false) // it counts no more, though closing it takes a moment
			other.conn.Close()
		}
	}
}

// count returns how many replicas are such. A replica that came back as another process, after its machine was
// switched off and on, may still have a connection of the old process: one address is one replica.
func (ps *Peers) count(such func(i *PeerInfo) bool) int {
	seen := make(map[Address]struct{})
	for _, i := range ps.Infos() {
		if i.Online && such(&i) {
			seen[Address{i.IP, i.Port}] = struct{}{}
		}
	}
	return len(seen)
}

// Count returns how many replicas have the log up to an offset, in memory and on disk.
func (ps *Peers) Count(offset uint64) (applied, durable int) {
	return ps.count(func(i *PeerInfo) bool { return i.Applied >= offset }), ps.count(func(i *PeerInfo) bool { return i.Durable >= offset })
}

// Good returns how many replicas acknowledged within a time.
func (ps *Peers) Good(within time.Duration) int {
	return ps.count(func(i *PeerInfo) bool { return i.Lag <= within })
}

// Wait returns when enough says so, which is asked after every acknowledgement, or ctx ends. It asks the replicas for acknowledgements at
// once, after firstAsk, and then after twice the time each, up to lastAsk: an answer may have overtaken records that are on their way.
// An acknowledgement is no reason to ask again, or they would come as fast as processors allow for as long as there are not enough.
func (ps *Peers) Wait(ctx context.Context, enough func() bool) {
	gap := firstAsk
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		ps.mu.Lock()
		if ps.news == nil {
			ps.news = make(chan struct{})
		}
		news := ps.news
		ps.mu.Unlock()
		if enough() {
			return
		}
		select {
		case <-news:
		case <-again.C:
			for _, p := range ps.All() {
				p.getAck()
			}
			again.Reset(gap)
			gap = min(2*gap, lastAsk)
		case <-ctx.Done():
			return
		}
	}
}

// Times between the requests of one Wait.
const (
	firstAsk = time.Millisecond
	lastAsk  = 50 * time.Millisecond
)

// DisconnectAll cuts all replicas off: they reconnect and learn of the change.
func (ps *Peers) DisconnectAll() {
	for _, p := range ps.All() {
		p.conn.Close()
	}
}
