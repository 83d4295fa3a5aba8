package front

import (
	"io"
	"testing"
)

// TestWriteGivesWay: a session that writes many short pieces, as a file that a replica copies, lets others have their turn after each
// maxWrite bytes of them.
func TestWriteGivesWay(t *testing.T) {
	both(t, nil, func(t *testing.T, h *echoes) {
		c := dial(t, h)
		c.send("POUR\r\n")
		if _, err := io.CopyN(io.Discard, c.r, 320<<10); err != nil {
			t.Fatal(err)
		}
		line, err := c.r.ReadString('\n')
		if err != nil || line != "+65536\r\n" {
			t.Errorf("got %q, %v, want 64 KiB behind two turns of others", line, err)
		}
	})
}
