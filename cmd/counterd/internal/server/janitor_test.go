package server

import "testing"

// TestPartialBegins sends without an end and always stops within a command: the time that a command may take to arrive counts from its own
// beginning, not from that of the first which was cut.
func TestPartialBegins(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("PING", "+PONG")
	server := s.connected()[0]
	send := func(text string) {
		if _, err := c.conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send("PI")
	until(t, "half a command", func() bool { return server.partialSince.Load() != 0 })
	first := server.partialSince.Load()
	until(t, "a later beginning", func() bool {
		send("NG\r\nPI")
		if got := c.read().String(); got != "+PONG" {
			t.Fatal(got)
		}
		return server.partialSince.Load() > first
	})
	send("NG\r\n")
	if got := c.read().String(); got != "+PONG" {
		t.Fatal(got)
	}
	until(t, "no half command", func() bool { return server.partialSince.Load() == 0 })
}
