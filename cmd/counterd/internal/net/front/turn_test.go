package front

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestJoinTakesSome: commands of a pipeline that the handler does not join come alone, in their order.
func TestJoinTakesSome(t *testing.T) {
	h := serve(t, nil)
	c := dial(t, h)
	var texts []string
	for i := range 300 {
		text := fmt.Sprint(i)
		if i%7 == 3 || i%50 > 45 {
			text = "alone" + strings.Repeat("x", i%20)
		}
		texts = append(texts, text)
	}
	var all strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&all, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(text), text)
	}
	go func() { _, _ = io.WriteString(c.conn, all.String()) }()
	for i, text := range texts {
		if got := c.read().String(); got != `"`+text+`"` {
			t.Fatalf("command %d: got %s, want %q", i, got, text)
		}
	}
}
