package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// LowPort is a free port below those that outgoing connections are given: it stays free while a server is down.
func LowPort(t testing.TB, r *rand.Rand) int {
	t.Helper()
	for range 100 {
		port := 20000 + r.IntN(12000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port in 20000..32000")
	return 0
}
