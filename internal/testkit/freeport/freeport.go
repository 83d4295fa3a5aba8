// Package freeport gives tests TCP ports to listen on.
package freeport

import (
	"net"
	"sync"
	"testing"
)

var (
	mu    sync.Mutex
	taken = map[int]bool{}
)

// Take returns a TCP port of 127.0.0.1 on which nobody listens now. The process never gets the same port twice: the kernel
// may offer a port again at once, and a server with two equal ports does not start. Safe for concurrent use.
func Take(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if !taken[port] {
			taken[port] = true
			return port
		}
	}
	t.Fatal("no free port in 1000 attempts that this process did not have before")
	return 0
}
