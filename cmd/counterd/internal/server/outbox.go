package server

import (
	"errors"
	"net"
	"sync"
)

// maxPending is what a subscriber may leave unread, in bytes: redis.conf's hard limit of client-output-buffer-limit for
// pubsub. Whoever passes it is closed, as its messages would take the memory that counters need.
const maxPending = 32 << 20

// errSlowSubscriber closes a subscriber that does not read.
var errSlowSubscriber = errors.New("subscriber passed its output limit of 32 MiB")

// outbox carries what is sent to a subscriber: its own replies and the messages that others publish, in one order. A connection
// gets one with its first subscription and keeps it. A goroutine of its own writes, so that a publisher never waits for a reader.
//
// Invariant: len(pending) <= maxPending.
type outbox struct {
	c       *client
	mu      sync.Mutex // guards the rest
	ready   sync.Cond
	pending []byte
	closed  bool // nothing more will be pushed
	err     error
	done    chan struct{}
}

func newOutbox(c *client) *outbox {
	b := &outbox{c: c, done: make(chan struct{})}
	b.ready.L = &b.mu
	go b.run()
	return b
}

// push appends bytes to be sent. It never waits.
func (b *outbox) push(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && len(b.pending)+len(p) > maxPending {
		b.err = errSlowSubscriber
		b.c.srv.log.Warn("closing connection", "client", b.c.id, "reason", b.err)
		b.c.conn.Close()
	}
	if b.err != nil {
		return b.err
	}
	b.pending = append(b.pending, p...)
	b.ready.Signal()
	return nil
}

// size is how much is not sent yet.
func (b *outbox) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// run writes until close.
func (b *outbox) run() {
	defer close(b.done)
	var out []byte
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.pending) == 0 && !b.closed && b.err == nil {
			b.ready.Wait()
		}
		if b.err != nil || len(b.pending) == 0 {
			return
		}
		out, b.pending = b.pending, out[:0]
		b.mu.Unlock()
		c := b.c
		c.writingSince.Store(c.srv.clock.Load())
		n, err := c.conn.Write(out)
		c.writingSince.Store(0)
		c.srv.stats.outBytes.Add(int64(n))
		if cap(out) > retainOut {
			out = nil
		}
		b.mu.Lock()
		if err != nil && b.err == nil {
			b.err = err
			if !errors.Is(err, net.ErrClosed) {
				c.conn.Close()
			}
		}
	}
}

// close sends what is pending and ends the goroutine.
func (b *outbox) close() {
	b.mu.Lock()
	b.closed = true
	b.ready.Signal()
	b.mu.Unlock()
	<-b.done
}
