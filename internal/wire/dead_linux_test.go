package wire

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDead: a connection that is made with Options.Dead is ended by the system when the other machine is silent for that long,
// whether something was sent or not.
func TestDead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, dead := range []time.Duration{0, 5 * time.Second} {
		c, err := Dial(t.Context(), l.Addr().String(), Options{Dead: dead})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.sock.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]int{}
		err = raw.Control(func(fd uintptr) {
			for _, name := range []int{unix.TCP_USER_TIMEOUT, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL} {
				n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name)
				if err != nil {
					t.Error(err)
				}
				got[name] = n
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ends := got[unix.TCP_USER_TIMEOUT] == int(dead/time.Millisecond) && got[unix.TCP_KEEPIDLE] == 1 && got[unix.TCP_KEEPINTVL] == 1
		if dead > 0 != ends {
			t.Errorf("Dead is %v: the socket has %v", dead, got)
		}
	}
}
