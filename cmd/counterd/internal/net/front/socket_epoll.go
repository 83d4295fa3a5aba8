//go:build linux && !noepoll

package front

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a connection whose readiness a loop watches, not the runtime of Go: its descriptor is read and written
// without waiting, by system calls that the scheduler does not see. For writers that must wait it makes a net.Conn of
// the same connection.
//
// One goroutine at a time owns the connection. It alone reads, and it alone frees the descriptor, when nobody writes
// any more; others can but Close, which lets the owner's next read end.
type socket struct {
	secure        *secure // its TLS; nil: it has none. Set before it is used
	local, remote net.Addr
	ended         atomic.Bool  // nothing more is to be read
	killed        atomic.Bool  // Close was called
	sent          atomic.Int64 // bytes that Write gave to the kernel

	mu       sync.Mutex // guards the rest, fd against being freed
	fd       int        // -1: freed
	patient  net.Conn   // for writes that wait; nil until there was one
	deadline time.Time  // of patient's
	watcher  *watcher   // nil: the owner waits for nothing
	over     bool       // a watcher was told
}

// open takes conn over: the runtime forgets it.
func (s *socket) open(conn net.Conn) error {
	s.local, s.remote, s.fd = conn.LocalAddr(), conn.RemoteAddr(), -1
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var dupErr error
	err = raw.Control(func(fd uintptr) { s.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil {
		err = dupErr
	}
	conn.Close()
	return err
}

// receive reads the bytes that have arrived; 0 without an error: none.
func (s *socket) receive(b []byte) (int, error) {
	if s.secure != nil {
		return s.secure.receive(b)
	}
	return s.recv(b)
}

// more tells whether there may be something to be read that epoll says nothing of.
func (s *socket) more() bool { return s.secure != nil && s.secure.more }

// recv is receive without decryption.
func (s *socket) recv(b []byte) (int, error) {
	if s.ended.Load() {
		return 0, net.ErrClosed
	}
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case err == unix.EAGAIN:
			return 0, nil
		case err == unix.EINTR:
		case err != 0:
			return 0, os.NewSyscallError("recvfrom", err)
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

// offer writes as much as can be written at once.
func (s *socket) offer(b []byte) (int, error) {
	if s.secure != nil {
		return s.secure.offer(b)
	}
	return s.push(b)
}

// unsent tells whether something that offer took has still to be written, by a Write of nothing or more.
func (s *socket) unsent() bool { return s.secure != nil && s.secure.waits() }

// push is offer without encryption.
func (s *socket) push(b []byte) (int, error) {
	s.mu.Lock()
	n, err := s.pushLocked(b)
	s.mu.Unlock() // not deferred: each reply comes this way
	return n, err
}

// pushLocked is push with mu held.
func (s *socket) pushLocked(b []byte) (int, error) {
	if s.fd < 0 {
		return 0, net.ErrClosed
	}
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case err == unix.EAGAIN:
			return 0, nil
		case err == unix.EINTR:
		case err != 0:
			return 0, os.NewSyscallError("sendto", err)
		default:
			return int(n), nil
		}
	}
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
	n, err := s.push(b)
	s.sent.Add(int64(n))
	if err != nil || n == len(b) {
		return n, err
	}
	conn, err := s.waiter()
	if err != nil {
		return n, err
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return n, err
	}
	m, err := writeAll(raw, b[n:], &s.sent)
	return n + m, err
}

// delivered grows when the other side takes something of a Write under way; it says nothing else.
func (s *socket) delivered() int64 {
	sent := s.sent.Load()
	unread, err := unix.IoctlGetInt(s.descriptor(), unix.SIOCOUTQ)
	if err != nil {
		unread = 0
	}
	return sent - int64(unread)
}

// waiter returns the net.Conn of the connection.
func (s *socket) waiter() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.patient != nil:
		return s.patient, nil
	case s.fd < 0:
		return nil, net.ErrClosed
	}
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	if s.patient, err = net.FileConn(file); err != nil {
		s.patient = nil
		return nil, err
	}
	_ = s.patient.SetWriteDeadline(s.deadline)
	return s.patient, nil
}

// Close ends the connection: reads and writes fail from now on. Anybody may call it.
func (s *socket) Close() error {
	s.killed.Store(true)
	s.ended.Store(true)
	return s.shutdown(unix.SHUT_RDWR)
}

// closed tells whether Close was called.
func (s *socket) closed() bool { return s.killed.Load() }

// watcher is told of the end of a connection.
type watcher struct {
	ended func()
	outer *watcher // that waits meanwhile
}

// watch has ended called when the connection has ended: the other side will send nothing more, or Close was called. It is called once, at once if
// that was before; with mu held, so it takes no lock of a socket's. The owner calls watch when it waits for something else, and unwatch afterwards.
// Here the loop hears of the end and calls checkEnded.
func (s *socket) watch(ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher = &watcher{ended, s.watcher}
	if s.over {
		ended()
	} else {
		s.checkEndedLocked()
	}
}

// unwatch ends the last watch. It tells whether the connection has ended.
func (s *socket) unwatch() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher = s.watcher.outer
	return s.over
}

// checkEnded tells the watcher if the connection has ended. An event alone does not say so: it may have been about the
// connection that had the descriptor before.
func (s *socket) checkEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkEndedLocked()
}

// checkEndedLocked is checkEnded with mu held.
func (s *socket) checkEndedLocked() {
	if s.watcher == nil || s.over || s.fd < 0 {
		return
	}
	if polled(s.fd, unix.POLLRDHUP)&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0 {
		s.over = true
		for w := s.watcher; w != nil; w = w.outer {
			w.ended()
		}
	}
}

// finish lets nothing more be read.
func (s *socket) finish() {
	s.ended.Store(true)
	_ = s.shutdown(unix.SHUT_RD)
}

// shutdown wakes all goroutines that wait for the connection.
func (s *socket) shutdown(how int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	err := unix.Shutdown(s.fd, how)
	s.checkEndedLocked()
	return os.NewSyscallError("shutdown", err)
}

// linger waits until the other side has received all written bytes, at most for a time. Closing a connection that holds
// input nobody read resets it, and a reset drops bytes still on their way.
func (s *socket) linger(most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n, err := unix.IoctlGetInt(s.descriptor(), unix.SIOCOUTQ); err != nil || n == 0 {
			return
		}
	}
}

// free closes the descriptor. REQUIRES: nobody reads or writes any more.
func (s *socket) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patient != nil {
		s.patient.Close()
	}
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

// forgetWaiter spares the runtime from watching the connection too. REQUIRES: nobody writes.
func (s *socket) forgetWaiter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patient != nil {
		s.patient.Close()
		s.patient = nil
	}
}

// descriptor is the number of the socket, -1 when it is freed.
func (s *socket) descriptor() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fd
}

// The rest of net.Conn. Reads are the owner's: see receive.

func (s *socket) Read([]byte) (int, error)        { return 0, os.ErrInvalid }
func (s *socket) LocalAddr() net.Addr             { return s.local }
func (s *socket) RemoteAddr() net.Addr            { return s.remote }
func (s *socket) SetDeadline(time.Time) error     { return os.ErrNoDeadline }
func (s *socket) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline bounds writes that wait.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if s.patient != nil {
		return s.patient.SetWriteDeadline(t)
	}
	return nil
}

// polled returns which of some events a descriptor has, and does not wait: so the runtime need not hear of the call.
func polled(fd int, events int16) int16 {
	p, now := unix.PollFd{Fd: int32(fd), Events: events}, unix.Timespec{}
	if _, _, err := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0); err != 0 {
		return 0
	}
	return p.Revents
}
