package front

import (
	"net"
	"strconv"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// TestBindFamily listens on all addresses of one family: the same port of the other is free.
func TestBindFamily(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Log("no IPv6 here:", err)
		return
	} else {
		l.Close()
	}
	for _, tt := range []struct{ bind, other, own string }{
		{"0.0.0.0", "[::1]", "127.0.0.1"}, {"*", "[::1]", "127.0.0.1"}, {"127.0.0.1", "[::1]", "127.0.0.1"}, {"::", "127.0.0.1", "[::1]"}, {"::*", "127.0.0.1", "[::1]"},
	} {
		port := freePort(t)
		serve(t, func(c *config.Config) { c.Bind, c.Port = []string{tt.bind}, port })
		if conn, err := net.Dial("tcp", tt.own+":"+strconv.Itoa(port)); err != nil {
			t.Errorf("--bind %s: %v", tt.bind, err)
		} else {
			conn.Close()
		}
		if conn, err := net.Dial("tcp", tt.other+":"+strconv.Itoa(port)); err == nil {
			conn.Close()
			t.Errorf("--bind %s: %s can be connected to", tt.bind, tt.other)
		}
	}
	port := freePort(t)
	serve(t, func(c *config.Config) { c.Bind, c.Port = []string{"*", "-::*"}, port }) // as redis.conf has it
	for _, own := range []string{"127.0.0.1", "[::1]"} {
		if conn, err := net.Dial("tcp", own+":"+strconv.Itoa(port)); err != nil {
			t.Errorf("--bind '* -::*': %v", err)
		} else {
			conn.Close()
		}
	}
}

// freePort is one that nobody has, on no address of either kind: other tests listen on some.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp6", "[::]:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if own, err := net.Listen("tcp4", "0.0.0.0:"+strconv.Itoa(port)); err == nil {
			own.Close()
			return port
		}
	}
	t.Fatal("no port is free on both")
	return 0
}
