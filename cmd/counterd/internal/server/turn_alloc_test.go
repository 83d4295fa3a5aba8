//go:build !race

package server

import "testing"

// TestTurnAllocates holds that a command costs no allocation from the socket to the socket. The race detector makes
// sync.Pool forget.
func TestTurnAllocates(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	command := []byte("*2\r\n$4\r\nINCR\r\n$7\r\n1.cntrn\r\n")
	reply := make([]byte, 100)
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := c.conn.Write(command); err != nil {
			t.Fatal(err)
		}
		if _, err := c.conn.Read(reply); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a command", n)
	}
}
