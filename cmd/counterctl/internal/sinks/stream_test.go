package sinks

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

// TestStreamWithoutItsLastEntry opens streams whose last entries were removed: their ids stay in Redis, which refuses changes up to them. So
// these streams are refused, as changes would be left out that they do not have.
func TestStreamWithoutItsLastEntry(t *testing.T) {
	p := counter.FeedPosition{Frame: 500}
	p.Term[0] = 1
	entry := "*1\r\n*2\r\n$5\r\n500-0\r\n*4\r\n" + bulk("position") + bulk(p.String()) + bulk("change") + bulk("{}")
	for _, c := range []struct{ about, last, entries, want string }{
		{"whole", "500-0", entry, ""},
		{"another process added an entry meanwhile", "400-0", entry, ""},
		{"made and never written to", "0-0", "*0\r\n", ""},
		{"changes behind it were undone", "900-0", entry, "XSETID changes 500-0"},
		{"emptied, and of another use before", "1795465778650-0", "*0\r\n", "1795465778650-0 was removed"},
	} {
		dial := func(context.Context) (*wire.Conn, error) {
			ours, theirs := net.Pipe()
			go serve(theirs, "+stream\r\n", "*2\r\n"+bulk("last-generated-id")+bulk(c.last), c.entries)
			return wire.NewConn(ours, 4096), nil
		}
		s, err := openStream(t.Context(), dial, 0, "changes", 0)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.about, err)
				continue
			}
			if got := s.(*stream).last; c.entries == entry && got != 500 {
				t.Errorf("%s: changes up to %d are left out, want 500", c.about, got)
			}
			_ = s.Close()
			continue
		}
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened with the position %q", c.about, s.Position())
		} else if !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v, want an error with %q that does not pass", c.about, err, c.want)
		}
	}
}

// serve answers commands with texts.
func serve(c net.Conn, answers ...string) {
	defer c.Close()
	r := wire.NewReader(c, 4096)
	for _, text := range answers {
		if _, err := r.ReadValue(); err != nil {
			return
		}
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

func bulk(s string) string { return string(wire.AppendBytes(nil, []byte(s))) }
