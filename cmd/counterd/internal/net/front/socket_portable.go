//go:build !linux || noepoll

package front

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// socket reads and writes a connection as net.Conn does, but asks for memory to read into when there is something to
// read, so that a connection that waits holds no buffer.
type socket struct {
	net.Conn
	secure *secure         // its TLS; nil: it has none. Set before it is used
	raw    syscall.RawConn // nil: Conn is no socket
	killed atomic.Bool     // Close was called
	last   atomic.Bool     // finish was called
	sent   atomic.Int64    // bytes that the kernel has taken

	watcher *watcher // the last; nil: the owner waits for nothing

	// Of the fill under way.
	space func() []byte // memory to read into
	idle  func()        // nothing has arrived: the memory may go
	n     int
	left  int // bytes of the memory that n left
	err   error
	fd    int

	fill func(fd uintptr) bool
}

func (s *socket) open(conn net.Conn) (err error) {
	s.Conn = conn
	c, ok := conn.(syscall.Conn)
	if !ok { // a simulated network's
		return nil
	}
	s.raw, err = c.SyscallConn()
	s.fill = s.tryRead
	return err
}

// receive waits until something has arrived and reads it into the memory that space gives; it returns how much that is,
// and how much it left free. space is asked before each read; idle is called when the memory is not needed as nothing
// has arrived.
func (s *socket) receive(space func() []byte, idle func()) (n, free int, err error) {
	if s.raw == nil {
		b := space()
		n, err = s.Conn.Read(b)
		return n, len(b) - n, err
	}
	s.space, s.idle, s.n, s.err = space, idle, 0, nil
	if err := s.raw.Read(s.fill); err != nil {
		return 0, 0, err
	}
	return s.n, s.left, s.err
}

// tryRead tells whether it read something, or failed.
func (s *socket) tryRead(fd uintptr) bool {
	s.fd = int(fd)
	b := s.space()
	var n int
	if s.secure != nil {
		n, s.err = s.secure.receive(b)
	} else {
		n, s.err = s.recv(b)
	}
	if n == 0 && s.err == nil {
		s.idle()
		return false
	}
	s.n, s.left = n, len(b)-n
	return true
}

// recv reads the bytes that have arrived, without decryption; 0 without an error: none. Called by tryRead.
func (s *socket) recv(b []byte) (int, error) {
	for {
		n, err := syscall.Read(s.fd, b)
		switch {
		case err == syscall.EAGAIN:
			return 0, nil
		case err == syscall.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Close ends the connection: reads and writes fail from now on. Anybody may call it.
func (s *socket) Close() error {
	s.killed.Store(true)
	return s.Conn.Close()
}

// closed tells whether Close was called.
func (s *socket) closed() bool { return s.killed.Load() }

// watchEvery is how often watch looks.
const watchEvery = 50 * time.Millisecond

// watcher looks whether a connection has ended, in a goroutine.
type watcher struct {
	stopped chan struct{}
	over    atomic.Bool
	outer   *watcher // that waits meanwhile
}

// watch has ended called when the connection has ended: the other side will send nothing more, or Close was called. The owner calls watch when it waits
// for something else, and unwatch afterwards. The end is not seen here while something that was sent before it is not read.
func (s *socket) watch(ended func()) {
	w := &watcher{stopped: make(chan struct{}), outer: s.watcher}
	s.watcher = w
	go func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for !s.atEnd() {
			select {
			case <-tick.C:
			case <-w.stopped:
				return
			}
		}
		w.over.Store(true)
		ended()
	}()
}

// unwatch ends the last watch. It tells whether the connection has ended.
func (s *socket) unwatch() (over bool) {
	w := s.watcher
	s.watcher = w.outer
	close(w.stopped)
	return w.over.Load()
}

// atEnd tells whether a read would find the end.
func (s *socket) atEnd() (end bool) {
	if c, ok := s.Conn.(interface{ AtEnd() bool }); ok {
		return c.AtEnd()
	}
	var b [1]byte
	err := s.raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		end = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return end || err != nil // the only error is that it is closed
}

// Write writes all of b, and waits where it must.
func (s *socket) Write(b []byte) (int, error) {
	if s.secure != nil {
		return s.secure.write(b)
	}
	return s.drain(b)
}

// drain is Write without encryption.
func (s *socket) drain(b []byte) (int, error) {
	if s.raw == nil {
		n, err := s.Conn.Write(b)
		s.sent.Add(int64(n))
		return n, err
	}
	return writeAll(s.raw, b, &s.sent)
}

// push writes as much on the line as can be written at once. Nobody else writes.
func (s *socket) push(b []byte) (n int, err error) {
	if s.raw == nil {
		return s.Conn.Write(b)
	}
	rawErr := s.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return err != syscall.EINTR
	})
	switch {
	case rawErr != nil:
		return 0, rawErr
	case err == syscall.EAGAIN:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	}
	return n, nil
}

// unsent: all is written by Write.
func (s *socket) unsent() bool { return s.secure != nil && s.secure.waits() }

// delivered grows when the other side takes something of a Write under way; it says nothing else.
func (s *socket) delivered() int64 { return s.sent.Load() }

// offer writes all.
func (s *socket) offer(b []byte) (int, error) { return s.Write(b) }

// finish lets nothing more be read.
func (s *socket) finish() {
	s.last.Store(true)
	_ = s.SetReadDeadline(time.Now())
}

// interrupt ends the receive under way, or the next one.
func (s *socket) interrupt() { _ = s.SetReadDeadline(time.Now()) }

// interrupted tells whether err is that of interrupt. Then one may receive again.
func (s *socket) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || s.last.Load() {
		return false
	}
	_ = s.SetReadDeadline(time.Time{})
	if s.last.Load() { // meanwhile
		_ = s.SetReadDeadline(time.Now())
	}
	return true
}

// free ends the connection.
func (s *socket) free() { s.Close() }

// descriptor is the number of the socket, -1 when it is closed.
func (s *socket) descriptor() int {
	fd := -1
	if s.raw == nil {
		return fd
	}
	_ = s.raw.Control(func(n uintptr) { fd = int(n) }) // its only error is that the socket is closed
	return fd
}

// linger would wait until the other side has received all written bytes, which is not known here.
func (s *socket) linger(time.Duration) {}
