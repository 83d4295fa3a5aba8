package freeport

import (
	"net"
	"strconv"
	"testing"
)

// TestTake takes many ports: none comes twice, all lie below the range of connections, and other processes see the sign of each.
func TestTake(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := Take(t)
		if seen[port] || port < low || port >= high {
			t.Fatalf("got port %d, want one from %d to %d that was not given before", port, low, high-1)
		}
		seen[port] = true
		if c, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			c.Close()
			t.Fatalf("port %d: the sign for other processes is not there", port)
		}
	}
}
