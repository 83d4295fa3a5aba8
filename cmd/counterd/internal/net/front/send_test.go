package front

import (
	"fmt"
	"io"
	"testing"
)

// TestWriteGivesWay: a session that writes many short pieces, as a file that a replica copies, lets others have their turn after each
// maxWrite bytes of them. So does a session that writes a large piece, but a small rest of it is written together with the piece before.
func TestWriteGivesWay(t *testing.T) {
	both(t, nil, func(t *testing.T, h *echoes) {
		for _, test := range []struct{ n, bytes, left int }{
			{10, 32 << 10, 64 << 10},
			{1, 90 << 10, 90 << 10}, // one piece
			{1, 96 << 10, 32 << 10},
			{1, 160 << 10, 32 << 10},
			{1, 150 << 10, 86 << 10},
		} {
			c := dial(t, h)
			c.send(fmt.Sprintf("POUR %d %d\r\n", test.n, test.bytes))
			if _, err := io.CopyN(io.Discard, c.r, int64(test.n*test.bytes)); err != nil {
				t.Fatal(err)
			}
			line, err := c.r.ReadString('\n')
			if want := fmt.Sprintf("+%d\r\n", test.left); err != nil || line != want {
				t.Errorf("%d pieces of %d bytes: got %q, %v, want %q since others had their turn", test.n, test.bytes, line, err, want)
			}
		}
	})
}
