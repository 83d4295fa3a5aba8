package server

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket reads and writes a connection as net.Conn does, but asks for memory to read into when there is something to read, so that a
// connection that waits holds no buffer.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil: the connection has no descriptor; then Conn's methods are used

	// Of the fill under way.
	space func() []byte // memory to read into
	idle  func()        // nothing has arrived: the memory may go
	n     int
	free  int // bytes of the memory that n left
	err   error

	fill func(fd uintptr) bool
}

// open readies s for conn. space is asked for memory before each read; idle is called when it is not needed as nothing has arrived.
func (s *socket) open(conn net.Conn, space func() []byte, idle func()) {
	s.Conn, s.space, s.idle = conn, space, idle
	if c, ok := conn.(syscall.Conn); ok {
		s.raw, _ = c.SyscallConn() // an error: closed already, as Conn's methods will say
	}
	s.fill = s.tryRead
}

// receive waits until something has arrived and reads it into the memory that space gave.
func (s *socket) receive() (int, error) {
	if s.raw == nil {
		b := s.space()
		n, err := s.Conn.Read(b)
		s.free = len(b) - n
		return n, err
	}
	s.n, s.err = 0, nil
	if err := s.raw.Read(s.fill); err != nil {
		return 0, err
	}
	return s.n, s.err
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
			s.n, s.free = n, len(b)-n
			return true
		}
	}
}
