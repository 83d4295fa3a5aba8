// Package freeport gives tests TCP ports to listen on.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports lie below the range of connections (net.ipv4.ip_local_port_range of Linux, from 32768): a server that is started again
// on its port would now and then find it taken by a connection of some other test. The servers that suites of other projects know by
// their ports (package suites) lie outside too.
const (
	low  = 18_000
	high = 26_000
)

var (
	mu    sync.Mutex
	taken = map[int]net.PacketConn{}
)

// Take returns a port as Find does, and ends the test if there is none.
func Take(t testing.TB) int {
	t.Helper()
	port, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Find returns a TCP port of 127.0.0.1 on which nobody listens now. While this process lives, no call of Find returns it again, in this
// process or in another: the UDP port of the same number is kept open as a sign. Safe for concurrent use.
func Find() (int, error) {
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
			sign.Close()
			return 0, err
		}
		taken[port] = sign
		return port, nil
	}
	return 0, errors.New("no free port in 10,000 attempts")
}
