package gather

import (
	"cmp"
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

const (
	// readSize is the buffer that replies are read into: those of 64 pages fit.
	readSize = 32 << 10
	// writeTimeout is how long a node may take nothing of what it is sent.
	writeTimeout = 5 * time.Second
)

// conn is a connection to a node that knows it for a link: see Shards.
type conn struct {
	sock   net.Conn        // nil: it is trunk's
	raw    syscall.RawConn // nil with TLS
	trunk  Trunk           // nil: a goroutine reads
	scan   scanner         // the reader's
	packed bool            // the node knows PackedFormat
	why    error           // why the reader of trunk ended it; nil: another has

	// The writer's: see link.writing.
	b   []byte
	n   int
	err error
	try func(fd uintptr) (done bool) // made once: what is handed to a RawConn goes to the heap
}

// dial connects to a node at an address, host:port.
func (s *Shards) dial(ctx context.Context, address string, within time.Duration) (*conn, error) {
	set := s.settings()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	o := wire.Options{User: set.User, Password: set.Password, Timeout: within, Answer: within, Buffer: 4 << 10, Connect: set.Connect}
	if set.TLS != nil {
		if o.TLS, err = set.TLS(host); err != nil {
			return nil, err
		}
	}
	w, err := wire.Dial(ctx, address, o)
	if err != nil {
		return nil, err
	}
	packed := true
	if _, err = w.Do("COUNTER.LINK", strconv.Itoa(PackedFormat), string(s.Self())); err != nil {
		packed = false
		_, err = w.Do("COUNTER.LINK", strconv.Itoa(PlainFormat), string(s.Self()))
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	c := &conn{sock: w.Detach(), packed: packed}
	if c.sock == nil {
		return nil, context.Cause(ctx)
	}
	if err := c.sock.SetDeadline(time.Time{}); err != nil {
		c.close()
		return nil, err
	}
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		if c.raw, err = tcp.SyscallConn(); err != nil {
			c.close()
			return nil, err
		}
	}
	c.try = c.write
	return c, nil
}

func (c *conn) close() {
	if c.trunk != nil {
		c.trunk.Close()
	} else {
		_ = c.sock.Close()
	}
}

// Trunk is a connection that an event loop of the server watches: see Settings.Watch.
type Trunk interface {
	// Offer writes as much as can be written at once.
	Offer(b []byte) (int, error)
	// Write writes all of b, and waits where it must, for so long at most.
	Write(b []byte, within time.Duration) (int, error)
	// Close ends the trunk soon.
	Close()
	// Ended is closed when the trunk has ended.
	Ended() <-chan struct{}
}

// watch has a loop read c, if the link has one.
func (l *link) watch(c *conn) error {
	set := l.shard.of.settings()
	if set.Watch == nil || l.loop < 0 || c.raw == nil {
		return nil
	}
	trunk, err := set.Watch(l.loop, c.sock, func(b []byte) (used int, err error) {
		if used, c.why = l.received(c, b); c.why == nil {
			l.flush()
		}
		return used, c.why
	})
	if trunk != nil {
		c.trunk, c.sock, c.raw = trunk, nil, nil
	}
	return err
}

// offer writes what the socket takes at once.
func (c *conn) offer(b []byte) (int, error) {
	if c.trunk != nil {
		return c.trunk.Offer(b)
	}
	if c.raw == nil {
		return 0, nil
	}
	c.b, c.n, c.err = b, 0, nil
	if err := c.raw.Write(c.try); err != nil {
		return c.n, err
	}
	return c.n, c.err
}

// write is what offer does with the descriptor.
func (c *conn) write(fd uintptr) (done bool) {
	for c.n < len(c.b) {
		n, err := syscall.Write(int(fd), c.b[c.n:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			c.err = os.NewSyscallError("write", err)
			return true
		default:
			c.n += n
		}
	}
	return true
}

// flush writes what is to be written, unless somebody does. It does not wait: what the socket does not take is written
// by a goroutine.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := l.conn; c != nil && c == l.conn && !l.writing && len(l.out) > 0; {
		b := l.swap()
		l.mu.Unlock()
		n, err := c.offer(b)
		if err == nil && n < len(b) {
			go l.drain(c, b, n)
			l.mu.Lock()
			return
		}
		l.mu.Lock()
		l.wrote(c, b, err)
	}
}

// swap takes out what is to be written. REQUIRES mu.
func (l *link) swap() []byte {
	b := l.out
	l.out, l.spare, l.writing = l.spare[:0], nil, true
	return b
}

// wrote ends what swap began. REQUIRES mu.
func (l *link) wrote(c *conn, b []byte, err error) {
	l.writing = false
	if cap(b) <= maxSpare {
		l.spare = b
	}
	if err != nil {
		c.close()
	}
}

// maxSpare is the largest buffer for commands that a link keeps.
const maxSpare = 256 << 10

// writeAll writes all of b.
func (c *conn) writeAll(b []byte) (err error) {
	if c.trunk != nil {
		_, err = c.trunk.Write(b, writeTimeout)
		return err
	}
	_ = c.sock.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err = c.sock.Write(b)
	return err
}

// drain writes b from n on, and what comes meanwhile.
func (l *link) drain(c *conn, b []byte, n int) {
	for {
		err := c.writeAll(b[n:])
		n = 0
		l.mu.Lock()
		l.wrote(c, b, err)
		if err != nil || l.conn != c || len(l.out) == 0 {
			l.mu.Unlock()
			l.flush() // to the connection that came in its place
			return
		}
		b = l.swap()
		l.mu.Unlock()
	}
}

// read reads replies until the connection ends.
func (l *link) read(c *conn) error {
	if c.trunk != nil {
		<-c.trunk.Ended()
		return cmp.Or(c.why, errUnfinished)
	}
	buf, have := make([]byte, readSize), 0
	for {
		if have == len(buf) { // a long reply
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := c.sock.Read(buf[have:])
		if err != nil {
			return err
		}
		have += n
		used, err := l.received(c, buf[:have])
		if err != nil {
			return err
		}
		l.flush()
		have = copy(buf, buf[used:have])
		if used > 0 && len(buf) > readSize && have < readSize {
			buf = append(make([]byte, 0, readSize), buf[:have]...)[:readSize]
		}
	}
}
