//go:build linux

// Command floor is the smallest server that counterbench can drive: the floor under the processor time of an operation. One loop waits by
// epoll_wait, receives, counts commands, and sends as many fixed replies. It keeps nothing, reads no keys and writes no numbers. Nearly
// all of its time is the kernel's. make bench-floor measures counterd and this server in turns.
package main

import (
	"flag"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	port := flag.Int("port", 0, "port of 127.0.0.1")
	version := flag.Bool("version", false, "print what this is")
	flag.Parse()
	if *version {
		fmt.Println("a loop of epoll_wait, recv and send with fixed replies")
		return
	}
	if err := serve(*port); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// serve serves until something fails.
func serve(port int) error {
	listener, err := listen(port)
	if err != nil {
		return err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := watch(epoll, listener, unix.EPOLLIN); err != nil {
		return err
	}
	last := map[int]*answer{} // by connection
	received := make([]byte, 16<<10)
	var events [256]unix.EpollEvent
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events)), uintptr(len(events)), ^uintptr(0), 0, 0)
		if errno != 0 { // EINTR
			n = 0
		}
		for _, event := range events[:n] {
			fd := int(event.Fd)
			if fd == listener {
				if err := accept(epoll, listener); err != nil {
					return err
				}
				continue
			}
			if last[fd], err = answerAll(fd, received, last[fd]); err != nil {
				_ = unix.Close(fd) // the client has left
			}
		}
	}
}

func listen(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	return fd, os.NewSyscallError("listen", unix.Listen(fd, 512))
}

func accept(epoll, listener int) error {
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("accept4", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return watch(epoll, fd, unix.EPOLLIN|unix.EPOLLET)
}

func watch(epoll, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// answerAll answers all that has arrived. A read that does not fill received has taken everything.
func answerAll(fd int, received []byte, last *answer) (*answer, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(received))), uintptr(len(received)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return last, nil
		case errno != 0:
			return nil, os.NewSyscallError("recvfrom", errno)
		case n == 0:
			return nil, os.ErrClosed
		}
		answer, commands := choose(received[:n], last)
		if err := answer.send(fd, commands); err != nil || int(n) < len(received) {
			return answer, err
		}
		last = answer
	}
}
