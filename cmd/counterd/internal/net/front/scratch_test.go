package front

import (
	"io"
	"net"
	"runtime"
	"testing"
)

// TestIdleMemory holds the promise that a connection which waits takes less than 8 KB, its goroutine and the test's own
// end included.
func TestIdleMemory(t *testing.T) {
	s := serve(t, nil)
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	const conns = 400
	before := inUse()
	var ends []net.Conn
	request := "*1\r\n$4\r\nPING\r\n*2\r\n$5\r\nLATER\r\n$1\r\n1\r\n"
	for range conns {
		conn, err := net.Dial(s.Addr().Network(), s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ends = append(ends, conn)
	}
	reply := make([]byte, len("+PONG\r\n$1\r\n1\r\n"))
	for _, conn := range ends {
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
	}
	if each := (inUse() - before) / conns; each > 8<<10 {
		t.Errorf("an idle connection takes %d bytes, want at most %d", each, 8<<10)
	}
}
