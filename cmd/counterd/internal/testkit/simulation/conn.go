package simulation

import (
	"io"
	"net"
	"os"
	"sync"
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
