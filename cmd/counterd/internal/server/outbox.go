package server

import (
	"errors"
	"net"
	"sync"
	"time"
)

// What a subscriber leaves unread takes the memory that counters need, so there are limits: client-output-buffer-limit
// for each, and maxUnread for all together. Beyond that, whoever is about to leave more than smallUnread unread is
// closed: 10,000 subscribers cannot hold more than 900 MiB.
const (
	maxUnread   = 256 << 20
	smallUnread = 64 << 10
	// writeChunk is what is handed to the kernel at a time: what a slow reader has taken no longer counts.
	writeChunk = 64 << 10
)

// errSlowSubscriber closes a subscriber that does not read.
var errSlowSubscriber = errors.New("subscriber passed client-output-buffer-limit")

// outbox carries what is sent to a subscriber: its own replies and the messages that others publish, in one order. A
// connection gets one with its first subscription and keeps it. A goroutine of its own writes, so that a publisher
// never waits for a reader.
type outbox struct {
	c       *client
	mu      sync.Mutex // guards the rest
	ready   sync.Cond
	pending []byte
	writing int       // bytes that run is writing
	over    time.Time // since when more than the soft limit is unread; zero: it is not
	closed  bool      // nothing more will be pushed
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
	s := b.c.srv
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if unread := len(b.pending) + b.writing + len(p); b.exceeds(unread) || unread > smallUnread && s.pubsub.unread.Load() > maxUnread {
		b.err = errSlowSubscriber
		s.stats.SlowSubscribers.Add(1)
		s.log.Warn("closing connection", "client", b.c.id, "reason", b.err, "unread", unread)
		b.c.conn.Close()
		b.ready.Signal()
		return b.err
	}
	b.account(len(p))
	b.pending = append(b.pending, p...)
	b.ready.Signal()
	return nil
}

// exceeds tells whether the limit closes a subscriber with so much unread. REQUIRES mu.
func (b *outbox) exceeds(unread int) bool {
	limit := b.c.srv.pubsub.limit.Load()
	if limit.Hard > 0 && uint64(unread) > limit.Hard {
		return true
	}
	if limit.Soft == 0 || uint64(unread) <= limit.Soft {
		b.over = time.Time{}
		return false
	}
	if b.over.IsZero() {
		b.over = time.Now()
	}
	return time.Since(b.over) > time.Duration(limit.Seconds)*time.Second
}

// account counts bytes that are unread, or no more.
func (b *outbox) account(n int) {
	b.c.srv.pubsub.unread.Add(int64(n))
	b.c.subs.unread.Add(int64(n))
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
			b.account(-len(b.pending))
			b.pending = nil
			return
		}
		out, b.pending = b.pending, out[:0]
		b.writing = len(out)
		for rest := out; len(rest) > 0 && b.err == nil; {
			n := min(len(rest), writeChunk)
			b.mu.Unlock()
			err := b.write(rest[:n])
			b.mu.Lock()
			rest = rest[n:]
			b.took(n)
			if err != nil {
				b.took(len(rest))
				b.fail(err)
			}
		}
		b.took(b.writing)
		if cap(out) > retainOut {
			out = nil
		}
	}
}

// took notes that n bytes of what run writes are unread no more. REQUIRES mu.
func (b *outbox) took(n int) {
	n = min(n, b.writing)
	b.writing -= n
	b.account(-n)
	if limit := b.c.srv.pubsub.limit.Load(); uint64(len(b.pending)+b.writing) <= limit.Soft {
		b.over = time.Time{}
	}
}

// fail ends the connection. REQUIRES mu.
func (b *outbox) fail(err error) {
	if b.err == nil {
		b.err = err
		if !errors.Is(err, net.ErrClosed) {
			b.c.conn.Close()
		}
	}
}

// write hands bytes to the kernel. A subscriber may take its time, as long as the limits allow.
func (b *outbox) write(p []byte) error {
	n, err := b.c.conn.Write(p)
	b.c.srv.stats.OutBytes.Add(int64(n))
	return err
}

// close sends what is pending and ends the goroutine. Who does not read then is not waited for.
func (b *outbox) close() {
	_ = b.c.conn.SetWriteDeadline(time.Now().Add(writeTimeout * time.Second))
	b.mu.Lock()
	b.closed = true
	b.ready.Signal()
	b.mu.Unlock()
	<-b.done
}
