package simulation

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a connection. It is a net.Conn; writes never wait.
type Conn struct {
	stack         *Stack
	in, out       *half
	local, remote net.Addr
	version       int // that both ends know

	mu       sync.Mutex
	closed   bool
	deadline time.Time
	timer    *time.Timer
	moved    chan struct{} // closed when the deadline passes or changes
}

var _ net.Conn = (*Conn)(nil)

func newConn(s *Stack, in, out *half, local, remote net.Addr) *Conn {
	return &Conn{stack: s, in: in, out: out, local: local, remote: remote, moved: make(chan struct{})}
}

// Read is of net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		late, moved := !c.deadline.IsZero() && !time.Now().Before(c.deadline), c.moved
		c.mu.Unlock()
		if late {
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		}
		n, more, err := c.in.read(b)
		if err != nil {
			return n, c.failed("read", err)
		}
		if more == nil {
			return n, nil
		}
		select {
		case <-more:
		case <-moved:
		}
	}
}

// Write is of net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(spoken(b, c.version))
	if err != nil {
		err = c.failed("write", err)
	}
	return n, err
}

// failed is the error as package net has it. The end of a stream is none.
func (c *Conn) failed(op string, err error) error {
	if err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close is of net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.in.fail(net.ErrClosed)
	c.out.finish(false)
	c.stack.forget(c)
	return nil
}

// AtEnd tells whether a read would find the end of the connection.
func (c *Conn) AtEnd() bool { return c.in.atEnd() }

// LocalAddr is of net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is of net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is of net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline is of net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
	if moved := c.moved; !t.IsZero() && time.Until(t) > 0 {
		c.timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.moved == moved {
				close(c.moved)
				c.moved = make(chan struct{})
			}
		})
	}
	return nil
}

// SetWriteDeadline is of net.Conn: writes never wait.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// half is one direction of a connection: what one end has written and the other has not read.
type half struct {
	net      *Network
	from, to *Stack

	mu      sync.Mutex
	queue   []packet // under way, in order
	last    time.Time
	armed   bool // a timer runs for the first of the queue
	held    time.Duration
	ready   []byte // has arrived
	ended   error  // what a read finds behind ready; nil: more may come
	broken  error  // what a write finds; nil: it is taken
	gone    bool   // the sender's host is off: nothing of the queue is sent again
	changed chan struct{}
}

// packet has the bytes of one write, or the end of the half.
type packet struct {
	at   time.Time // when it arrives
	data []byte
	end  error // io.EOF or a reset; nil: there is data
}

// giveUp is how long a sender tries to get a packet across.
const giveUp = 60 * time.Second

func newHalf(n *Network, from, to *Stack) *half {
	return &half{net: n, from: from, to: to, changed: make(chan struct{})}
}

// notify wakes all readers. REQUIRES mu.
func (h *half) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// write takes a copy of b.
func (h *half) write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return 0, h.broken
	}
	h.push(packet{data: append([]byte(nil), b...)})
	return len(b), nil
}

// push puts a packet behind all others. REQUIRES mu.
func (h *half) push(p packet) {
	p.at = time.Now().Add(h.net.travel(h.from.host, h.to.host))
	if p.at.Before(h.last) {
		p.at = h.last
	}
	h.last = p.at
	h.queue = append(h.queue, p)
	h.arm(time.Until(p.at))
}

// arm looks at the queue again after some time. REQUIRES mu.
func (h *half) arm(after time.Duration) {
	if !h.armed {
		h.armed = true
		time.AfterFunc(max(after, 0), h.deliver)
	}
}

// deliver moves the bytes of packets that have arrived to ready.
func (h *half) deliver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed = false
	if len(h.queue) == 0 {
		return
	}
	there := h.net.stack(h.to.host)
	switch {
	case there == nil || h.net.link(h.from.host, h.to.host).Cut:
		if h.gone { // nobody sends it again
			h.queue = nil
			return
		}
		again := min(max(h.held, 200*time.Millisecond), 5*time.Second)
		if h.held += again; h.held > giveUp {
			h.drop(syscall.ETIMEDOUT)
			return
		}
		h.arm(again)
		return
	case there != h.to: // another process: it knows nothing of the connection, and says so
		h.drop(syscall.ECONNRESET)
		return
	}
	h.held = 0
	now := time.Now()
	for len(h.queue) > 0 && !h.queue[0].at.After(now) {
		p := h.queue[0]
		h.queue = h.queue[1:]
		if h.ended == nil {
			h.ready = append(h.ready, p.data...)
			if h.ended = p.end; p.end == syscall.ECONNRESET {
				h.ready, h.broken = nil, syscall.EPIPE
			}
		}
	}
	h.notify()
	if len(h.queue) > 0 {
		h.arm(time.Until(h.queue[0].at))
	}
}

// drop ends the connection on the sender's side. REQUIRES mu.
func (h *half) drop(err error) {
	h.queue, h.broken = nil, err
	for _, c := range h.from.of(h) {
		go c.in.fail(err)
	}
}

// of finds the connections of a process that write to a half.
func (s *Stack) of(h *half) (found []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.out == h {
			found = append(found, c)
		}
	}
	return found
}

// fail ends reading at once.
func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil || h.ended == io.EOF {
		h.ended = err
	}
	h.ready = nil
	h.notify()
}

// finish ends the half behind its packets, or with a reset in their place.
func (h *half) finish(reset bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return
	}
	end := io.EOF
	if reset {
		h.queue, end = nil, syscall.ECONNRESET
	}
	h.broken = syscall.EPIPE
	h.push(packet{end: end})
}

// vanish ends the half without a word: packets under way arrive, nothing is sent again.
func (h *half) vanish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.broken = true, syscall.EPIPE
}

// read reads bytes that are ready. If there are none, it returns a channel to wait for.
func (h *half) read(b []byte) (n int, more <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ready) > 0 {
		n = copy(b, h.ready)
		if h.ready = h.ready[n:]; len(h.ready) == 0 {
			h.ready = nil
		}
		return n, nil, nil
	}
	if h.ended != nil {
		return 0, nil, h.ended
	}
	return 0, h.changed, nil
}

// atEnd tells whether a read would find the end.
func (h *half) atEnd() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ready) == 0 && h.ended != nil
}
