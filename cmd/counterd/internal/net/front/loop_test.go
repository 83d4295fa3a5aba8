// Scenario: loop, slow, endless and half-closed connections under both loops.

package front

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// clients connects so many that each loop has some.
func clients(t *testing.T, h *echoes) []*wire {
	list := make([]*wire, 3*runtime.GOMAXPROCS(0))
	for i := range list {
		list[i] = dial(t, h)
	}
	return list
}

// TestSlowReader fills connections with replies that nobody reads: all others are served, and in the end
// every reply is there and in order.
func TestSlowReader(t *testing.T) { both(t, nil, testSlowReader) }

func testSlowReader(t *testing.T, s *echoes) {
	all := clients(t, s)
	slow := all[:len(all)/2]
	const rounds = 200
	text := strings.Repeat("x", 8<<10)
	sent := make(chan error, len(slow))
	for _, c := range slow {
		go func() {
			for i := range rounds {
				if _, err := fmt.Fprintf(c.conn, "ECHO %d%s\r\nLATER %d\r\nSLOW x\r\nPING\r\n", i, text, i); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
	}
	until(t, "a reply that does not fit", func() bool {
		n := 0
		for _, c := range s.Sessions() {
			if c.Activity.Writing() {
				n++
			}
		}
		return n == len(slow)
	})
	for _, c := range all[len(slow):] {
		c.want("PING", "+PONG")
		c.want("LATER x", `"x"`)
	}
	for _, c := range slow {
		for i := range rounds {
			if got, want := c.read().Text, fmt.Sprint(i)+text; got != want {
				t.Fatalf("round %d: got %.40q", i, got)
			}
			for _, want := range []string{fmt.Sprintf("%q", fmt.Sprint(i)), `"x"`, "+PONG"} {
				if got := c.read().String(); got != want {
					t.Fatalf("round %d: got %.40s, want %s", i, got, want)
				}
			}
		}
	}
	for range slow {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

// TestEndless has connections that never stop to send: all others are served.
func TestEndless(t *testing.T) { both(t, nil, testEndless) }

func testEndless(t *testing.T, s *echoes) {
	all := clients(t, s)
	endless := all[:len(all)/2]
	for _, c := range endless {
		go func() {
			flood := []byte(strings.Repeat("*2\r\n$5\r\nLATER\r\n$7\r\n1234567\r\n", 1000))
			for {
				if _, err := c.conn.Write(flood); err != nil {
					return
				}
			}
		}()
		go func() { _, _ = io.Copy(io.Discard, c.conn) }()
	}
	rounds := 50
	if testing.Short() { // under the race detector a flood of 1,000 commands takes tens of ms
		rounds = 5
	}
	for range rounds {
		for _, c := range all[len(endless):] {
			c.want("LATER x", `"x"`)
		}
	}
	for _, c := range endless {
		c.conn.Close()
	}
}

// TestHalfClose ends one direction right behind the commands: they are answered, then the other direction ends too.
func TestHalfClose(t *testing.T) {
	s := serve(t, nil)
	for round := range 50 {
		c := dial(t, s)
		n := 1 + round*round // from less than a buffer to more than one
		if _, err := io.WriteString(c.conn, strings.Repeat("LATER 1\r\n", n)); err != nil {
			t.Fatal(err)
		}
		if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for range n {
			if got := c.read().String(); got != `"1"` {
				t.Fatalf("got %s", got)
			}
		}
		c.closed()
	}
	until(t, "all connections forgotten", func() bool { return len(s.Sessions()) == 0 })
}
