package pubsub

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Messages that a subscriber leaves unread take memory that counters need, so there are limits:
// client-output-buffer-limit for each, and maxUnread for all together. Beyond that, a subscriber about to leave more
// than smallUnread bytes unread is closed: 10,000 subscribers cannot hold more than 900 MiB.
const (
	maxUnread   = 256 << 20
	smallUnread = 64 << 10
	// writeChunk is how many bytes are handed to the kernel at a time: bytes that a slow reader has taken no longer
	// count.
	writeChunk = 64 << 10
	// retain is the largest buffer that an outbox with nothing to send keeps.
	retain = 16 << 10
)

// Limit closes a subscriber at once when more than Hard bytes are unread, or when more than Soft are for longer than
// Seconds. 0 is no limit.
type Limit struct {
	Hard, Soft uint64
	Seconds    int
}

// Conn is the connection of a subscriber.
type Conn interface {
	// Write hands bytes to the kernel and waits until it has taken all. One goroutine calls it.
	Write(p []byte) (int, error)
	// SetWriteDeadline ends a Write then, also a Write in progress.
	SetWriteDeadline(t time.Time) error
	// Close ends the connection, and a Write. It must not wait, nor call this package.
	Close() error
	// Slow tells that the subscriber leaves too much unread: Close comes next. It must not wait, nor call this package.
	Slow(unread int, reason error)
}

// errSlow closes a subscriber that does not read.
var errSlow = errors.New("subscriber passed client-output-buffer-limit")

// outbox holds the data to send to a subscriber, its own replies and the messages of others, in one order. A connection
// gets one with its first subscription and keeps it. A goroutine of its own writes, so that a publisher never waits for
// a reader.
type outbox struct {
	r       *Registry
	s       *Subscriber
	conn    Conn
	mu      sync.Mutex // guards the rest
	ready   sync.Cond
	pending []byte
	writing int       // bytes that run is writing
	over    time.Time // since when more than the soft limit is unread; zero: it is not
	asleep  bool      // run waits, and nobody has begun to wake it
	closed  bool      // nothing more will be pushed
	err     error
	done    chan struct{}
}

func newOutbox(r *Registry, s *Subscriber, conn Conn) *outbox {
	b := &outbox{r: r, s: s, conn: conn, done: make(chan struct{})}
	b.ready.L = &b.mu
	r.boxesMu.Lock()
	defer r.boxesMu.Unlock()
	if r.boxes == nil {
		r.boxes = make(map[*outbox]struct{})
	}
	r.boxes[b] = struct{}{}
	go b.run()
	return b
}

// push appends bytes to be sent. It never waits.
func (b *outbox) push(p []byte) error {
	_, err := b.put(p)
	b.ready.Signal()
	return err
}

// put is push without the signal. It tells whether the caller has to give that: run sleeps, and no other caller was told.
func (b *outbox) put(p []byte) (sleeps bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return false, b.err
	}
	if unread := len(b.pending) + b.writing + len(p); b.exceeds(unread) || unread > smallUnread && b.r.Unread() > maxUnread {
		b.slow(unread)
		return false, b.err
	}
	b.account(len(p))
	b.pending = append(b.pending, p...)
	sleeps, b.asleep = b.asleep, false
	return sleeps, nil
}

// look is Registry.Look for one subscriber.
func (b *outbox) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if unread := len(b.pending) + b.writing; b.err == nil && b.exceeds(unread) {
		b.slow(unread)
	}
}

// slow ends the connection of a subscriber that leaves so much unread. REQUIRES mu.
func (b *outbox) slow(unread int) {
	b.err = errSlow
	b.conn.Slow(unread, b.err)
	b.conn.Close()
	b.ready.Signal()
}

// exceeds tells whether the limit closes a subscriber with so much unread. REQUIRES mu.
func (b *outbox) exceeds(unread int) bool {
	limit := b.limit()
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

// limit is the one set last.
func (b *outbox) limit() Limit {
	if l := b.r.limit.Load(); l != nil {
		return *l
	}
	return Limit{}
}

// account counts bytes that are unread, or no more.
func (b *outbox) account(n int) {
	b.r.unread.Add(int64(n))
	b.s.unread.Add(int64(n))
}

// run writes until close.
func (b *outbox) run() {
	defer close(b.done)
	defer func() {
		b.r.boxesMu.Lock()
		delete(b.r.boxes, b)
		b.r.boxesMu.Unlock()
	}()
	var out []byte
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.pending) == 0 && !b.closed && b.err == nil {
			b.asleep = true
			b.ready.Wait()
			b.asleep = false
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
			_, err := b.conn.Write(rest[:n]) // a subscriber may take its time, as long as the limits allow
			b.mu.Lock()
			rest = rest[n:]
			b.took(n)
			if err != nil {
				b.took(len(rest))
				b.fail(err)
			}
		}
		b.took(b.writing)
		if cap(out) > retain {
			out = nil
		}
	}
}

// took notes that n bytes written by run are no longer unread. REQUIRES mu.
func (b *outbox) took(n int) {
	n = min(n, b.writing)
	b.writing -= n
	b.account(-n)
	if limit := b.limit(); uint64(len(b.pending)+b.writing) <= limit.Soft {
		b.over = time.Time{}
	}
}

// fail ends the connection. REQUIRES mu.
func (b *outbox) fail(err error) {
	if b.err == nil {
		b.err = err
		if !errors.Is(err, net.ErrClosed) {
			b.conn.Close()
		}
	}
}

// close sends the pending data and ends the goroutine. It waits for a client that takes nothing for most at the
// longest.
func (b *outbox) close(most time.Duration) {
	_ = b.conn.SetWriteDeadline(time.Now().Add(most))
	b.mu.Lock()
	b.closed = true
	b.ready.Signal()
	b.mu.Unlock()
	<-b.done
}
