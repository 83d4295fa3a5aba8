package repl

import (
	"bytes"
	"context"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
)

// Feed starts to stream, behind the bytes that were sent last. The reader of the connection goes on to read
// acknowledgements.
func (p *Peer) Feed() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	p.online.Store(true)
	p.acked.Store(int64(monotonic.Now()))
	p.peers.add(p)
	p.peers.online.Add(1)
	p.peers.replace(p)
	p.peers.quorum.joined(p)
	if p.takesCompare && p.peers.node != nil {
		p.comparing = true
		p.peers.comparer.joined()
	}
	if p.nodeID != "" && p.peers.quorum.leads() != p.epoch { // as below
		p.conn.Close()
	}
	if now := p.store.Replication().Lineage(); !bytes.Equal(now.AppendText(nil), p.told) {
		p.conn.Close() // it changed before DisconnectAll could see this peer: the replica must learn of it
	}
	if p.peers.node != nil && p.port != 0 {
		go p.peers.node.replicas.note()
	}
	go p.feed(ctx)
}

const (
	// pingEvery is how often a replica hears of the primary, whatever happens.
	pingEvery = time.Second
	// sendBuffer is how many bytes are collected for one write, unless the log has no more.
	sendBuffer = 64 << 10
	// confirmEvery is how soon a replica is sent the confirmed offset, unless other messages carry it anyway.
	confirmEvery = 100 * time.Millisecond
)

// feed sends frames as they are written, until the connection or the log ends.
func (p *Peer) feed(ctx context.Context) {
	defer close(p.done)
	defer p.conn.Close()
	defer p.peers.online.Add(-1)
	out := make([]byte, 0, sendBuffer)
	send := func() error {
		if len(out) == 0 {
			return nil
		}
		_ = p.conn.SetWriteDeadline(time.Now().Add(p.peers.timeout()))
		_, err := p.conn.Write(out)
		if cap(out) > 4*sendBuffer {
			out = make([]byte, 0, sendBuffer)
		}
		out = out[:0]
		p.sent.Store(p.reader.Pos())
		return err
	}
	told, tells := uint64(0), p.takesConfirm && p.peers.node != nil
	confirm := func() {
		if !tells {
			return
		}
		if now := p.safe(); now > told {
			out, told = appendConfirmed(out, now), now
		}
	}
	nextPing := time.Now()
	for ctx.Err() == nil {
		out = p.published.take(out, p.reader.Pos())
		f, err := p.reader.TryNext()
		if err == nil && f != nil {
			out = append(append(out, msgFrame), f.Raw...)
			if len(out) >= sendBuffer {
				confirm()
				if err := send(); err != nil {
					return
				}
				p.peers.Pause() // a replica that is behind would keep a processor for 10 ms at a time
			}
			continue
		}
		if err != nil {
			counter.NoteBrokenLog(p.store, err)
			p.peers.logger.Warn("cannot send the log to a replica", "replica", p.address(), "error", err)
			_ = send() // the frames before: the replica comes back at the bad one, and probe sends it a full copy
			return
		}
		p.follow()
		if p.wantAck.Swap(false) {
			out = append(out, msgGetAck)
		}
		now := time.Now()
		if !now.Before(nextPing) {
			out = appendPing(out, p.store.Replication().Written())
			nextPing = now.Add(pingEvery)
			if tells {
				p.peers.node.noteConfirmed()
			}
		}
		confirm()
		if send() != nil {
			return
		}
		next := nextPing
		if tells && told < p.reader.Pos() && now.Add(confirmEvery).Before(next) {
			next = now.Add(confirmEvery)
		}
		wait, cancel := context.WithDeadline(ctx, next)
		p.kick.Store(&cancel)
		if !p.wantAck.Load() && !p.published.due(p.reader.Pos()) {
			f, err = p.reader.Next(wait)
		}
		cancel()
		switch {
		case f != nil:
			out = append(append(out, msgFrame), f.Raw...)
		case err != nil && wait.Err() == nil:
			return // the log was closed
		}
	}
}

// follow lets the log that was sent go.
func (p *Peer) follow() {
	if p.pin != nil {
		p.pin.Release()
		p.pin = nil
	}
}

// getAck asks for an acknowledgement.
func (p *Peer) getAck() {
	p.wantAck.Store(true)
	p.wake()
}

// wake has the feeder look what there is to send beside the log.
func (p *Peer) wake() {
	if cancel := p.kick.Load(); cancel != nil {
		(*cancel)()
	}
}
