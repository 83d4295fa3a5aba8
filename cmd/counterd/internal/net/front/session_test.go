package front

import (
	"fmt"
	"strings"
	"testing"
)

// TestOrder: replies come in the order of the commands, whatever was planned, held or executed elsewhere.
func TestOrder(t *testing.T) { both(t, nil, testOrder) }

func testOrder(t *testing.T, h *echoes) {
	all := make([]*wire, 20)
	for i := range all {
		all[i] = dial(t, h)
		var text strings.Builder
		for n := range 200 {
			fmt.Fprintf(&text, "%s %d\r\n", []string{"ECHO", "LATER", "LATER", "SLOW"}[(i+n)%4], n)
		}
		all[i].send(text.String())
	}
	for i, c := range all {
		for n := range 200 {
			if got, want := c.read().String(), fmt.Sprintf("%q", fmt.Sprint(n)); got != want {
				t.Fatalf("connection %d: got %s, want %s", i, got, want)
			}
		}
	}
}

// TestPanicEndsOne: a panic closes the connection that it came with, and no other.
func TestPanicEndsOne(t *testing.T) { both(t, nil, testPanicEndsOne) }

func testPanicEndsOne(t *testing.T, h *echoes) {
	a, b := dial(t, h), dial(t, h)
	b.want("PING", "+PONG")
	a.send("PANIC\r\n")
	a.closed()
	b.want("PING", "+PONG")
	c := dial(t, h)
	c.want("SLOW x", `"x"`)
	c.send("SLOW x\r\nPANIC\r\n") // elsewhere
	c.closed()
	b.want("PING", "+PONG")
	if n := h.totals.Panics.Load(); n != 2 {
		t.Errorf("%d panics are counted", n)
	}
}

// TestBlockEnds: a command that waits is told the end of its connection, and no later command of the client is
// executed.
func TestBlockEnds(t *testing.T) { both(t, nil, testBlockEnds) }

func testBlockEnds(t *testing.T, h *echoes) {
	for name, end := range map[string]func(c *wire, s *Session){
		"by the client": func(c *wire, _ *Session) { c.line().Close() },
		"by the server": func(_ *wire, s *Session) { s.Conn().Close() },
	} {
		c := dial(t, h)
		c.want("PING", "+PONG")
		s := h.Sessions()[0]
		c.send("BLOCK\r\nPANIC\r\n")
		until(t, name+": blocked", func() bool { return h.Blocked() == 1 && s.Activity.Blocked() })
		end(c, s)
		until(t, name+": forgotten", func() bool { return h.Session(s.ID()) == nil })
		if n := h.Blocked(); n != 0 {
			t.Errorf("%s: %d are blocked", name, n)
		}
	}
	if n := h.totals.Panics.Load(); n != 0 {
		t.Errorf("%d commands behind were executed", n)
	}
}

// TestBusyEnds: a command that works, and waits meanwhile, is told the end of its connection in both.
func TestBusyEnds(t *testing.T) { both(t, nil, testBusyEnds) }

func testBusyEnds(t *testing.T, h *echoes) {
	for name, end := range map[string]func(c *wire, s *Session){
		"by the client": func(c *wire, _ *Session) { c.line().Close() },
		"by the server": func(_ *wire, s *Session) { s.Conn().Close() },
	} {
		c := dial(t, h)
		c.want("PING", "+PONG")
		s := h.Sessions()[0]
		c.send("BUSY\r\n")
		until(t, name+": blocked", func() bool { return h.Blocked() == 1 && s.Activity.Blocked() })
		end(c, s)
		until(t, name+": forgotten", func() bool { return h.Session(s.ID()) == nil })
	}
}

// TestWaitsEndWithServer: commands that wait or work are told that the server ends.
func TestWaitsEndWithServer(t *testing.T) { both(t, nil, testWaitsEndWithServer) }

func testWaitsEndWithServer(t *testing.T, h *echoes) {
	for _, command := range []string{"BLOCK\r\n", "BUSY\r\n"} {
		c := dial(t, h)
		c.send(command)
	}
	until(t, "blocked", func() bool { return h.Blocked() == 2 })
	h.Stop()
	until(t, "not blocked", func() bool { return h.Blocked() == 0 })
	until(t, "ended", func() bool { return len(h.Sessions()) == 0 })
}

// TestProtocolErrorEnds: a protocol error is answered after the earlier commands, and nothing after it is executed.
func TestProtocolErrorEnds(t *testing.T) { both(t, nil, testProtocolErrorEnds) }

func testProtocolErrorEnds(t *testing.T, h *echoes) {
	c := dial(t, h)
	c.send("LATER a\r\n*x\r\nPANIC\r\n")
	if got := c.read().String(); got != `"a"` {
		t.Errorf("got %s", got)
	}
	if got := c.read().String(); got != "-ERR Protocol error: invalid multibulk length" {
		t.Errorf("got %s", got)
	}
	c.closed()
	if n := h.totals.Panics.Load(); n != 0 {
		t.Error("what came behind was executed")
	}
}
