package wire

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// endDead has the system end a connection on which the other machine has acknowledged nothing for some time, although it was
// asked to: data that was sent, or a probe each second while nothing is sent. A process that is slow does not matter: its system
// acknowledges.
func endDead(conn *net.TCPConn, after time.Duration) error {
	if err := conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: max(int(after/time.Second), 1)}); err != nil {
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after/time.Millisecond))
	})
	if err != nil {
		return err
	}
	return failed
}
