package front

import (
	"net"
	"strconv"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/testkit/freeport"
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
		port := freeport.Take(t)
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
	port := freeport.Take(t)
	serve(t, func(c *config.Config) { c.Bind, c.Port = []string{"*", "-::*"}, port }) // as redis.conf has it
	for _, own := range []string{"127.0.0.1", "[::1]"} {
		if conn, err := net.Dial("tcp", own+":"+strconv.Itoa(port)); err != nil {
			t.Errorf("--bind '* -::*': %v", err)
		} else {
			conn.Close()
		}
	}
}
