// Package freeport gives tests TCP ports to listen on.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports lie below the range of connections (net.ipv4.ip_local_port_range of Linux, from 32768): a server that is started again
// on its port would now and then find it taken by a connection of some other test.
const (
	low  = 10_000
	high = 32_768
)

var (
	mu    sync.Mutex
	taken = map[int]net.PacketConn{}
)

// Take returns a TCP port of 127.0.0.1 on which nobody listens now. While this process lives, no call of Take returns it again, in this
// process or in another: the UDP port of the same number is kept open as a sign. Safe for concurrent use.
func Take(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range 10_000 {
		port := low + rand.IntN(high-low)
		if taken[port] != nil {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		sign, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			sign.Close()
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		taken[port] = sign
		return port
	}
	t.Fatal("no free port in 10,000 attempts")
	return 0
}
