//go:build !linux || noepoll

package server

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// socket reads and writes a connection as net.Conn does, but asks for memory to read into when there is something to read, so that a
// connection that waits holds no buffer.
type socket struct {
	net.Conn
	raw syscall.RawConn

	// Of the fill under way.
	space func() []byte // memory to read into
	idle  func()        // nothing has arrived: the memory may go
	n     int
	left  int // bytes of the memory that n left
	err   error

	fill func(fd uintptr) bool
}

func (s *socket) open(conn net.Conn) (err error) {
	s.Conn = conn
	s.raw, err = conn.(syscall.Conn).SyscallConn()
	s.fill = s.tryRead
	return err
}

// receive waits until something has arrived and reads it into the memory that space gives; it returns how much that is, and how much
// it left free. space is asked before each read; idle is called when the memory is not needed as nothing has arrived.
func (s *socket) receive(space func() []byte, idle func()) (n, free int, err error) {
	s.space, s.idle, s.n, s.err = space, idle, 0, nil
	if err := s.raw.Read(s.fill); err != nil {
		return 0, 0, err
	}
	return s.n, s.left, s.err
}

// tryRead tells whether it read something, or failed.
func (s *socket) tryRead(fd uintptr) bool {
	for {
		b := s.space()
		n, err := syscall.Read(int(fd), b)
		switch {
		case err == syscall.EAGAIN:
			s.idle()
			return false
		case err == syscall.EINTR:
		case err != nil:
			s.err = os.NewSyscallError("read", err)
			return true
		case n == 0:
			s.err = io.EOF
			return true
		default:
			s.n, s.left = n, len(b)-n
			return true
		}
	}
}

// offer writes all.
func (s *socket) offer(b []byte) (int, error) { return s.Write(b) }

// finish lets nothing more be read.
func (s *socket) finish() { _ = s.SetReadDeadline(time.Now()) }

// free ends the connection.
func (s *socket) free() { s.Close() }

// descriptor is the number of the socket, -1 when it is closed.
func (s *socket) descriptor() int {
	fd := -1
	_ = s.raw.Control(func(n uintptr) { fd = int(n) }) // its only error is that the socket is closed
	return fd
}

// settle would wait until the other side has what was written: not known here.
func (s *socket) settle(time.Duration) {}
