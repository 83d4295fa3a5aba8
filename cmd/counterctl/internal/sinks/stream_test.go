package sinks

import (
	"context"
	"errors"
	"fmt"
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

// fakeRedis has one stream, and knows the commands that a sink sends to it.
type fakeRedis struct {
	ids, positions []string
	version        int // of the stream
	watched        int // version at the last WATCH
	queued         [][]string
	before         func(command string) // a command is executed; nil: nothing is to be done
	full           bool                 // XADD is refused
}

func (r *fakeRedis) add(id, position string) {
	r.ids, r.positions = append(r.ids, id), append(r.positions, position)
	r.version++
}

func (r *fakeRedis) answer(words []string) string {
	if r.before != nil {
		r.before(words[0])
	}
	switch words[0] {
	case "WATCH":
		r.watched = r.version
	case "XREVRANGE":
		n := len(r.ids) - 1
		if n < 0 {
			return "*0\r\n"
		}
		return "*1\r\n*2\r\n" + bulk(r.ids[n]) + "*4\r\n" + bulk("position") + bulk(r.positions[n]) + bulk("change") + bulk("{}")
	case "MULTI":
		r.queued = nil
	case "XADD":
		r.queued = append(r.queued, words)
		return "+QUEUED\r\n"
	case "EXEC":
		if r.version != r.watched {
			return "*-1\r\n"
		}
		text := fmt.Sprintf("*%d\r\n", len(r.queued))
		for _, w := range r.queued {
			if r.full {
				text += "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
				continue
			}
			r.add(w[2], w[4])
			text += bulk(w[2])
		}
		return text
	}
	return "+OK\r\n"
}

// dial connects a client to r.
func (r *fakeRedis) dial(t *testing.T) *wire.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = ours.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		defer theirs.Close()
		in := wire.NewReader(theirs, 4096)
		for {
			v, err := in.ReadValue()
			if err != nil {
				return
			}
			words := make([]string, len(v.Array))
			for i := range words {
				words[i] = v.Array[i].Str
			}
			if _, err := io.WriteString(theirs, r.answer(words)); err != nil {
				return
			}
		}
	}()
	return wire.NewConn(ours, 4096)
}

// TestStreamOfCluster writes the joined changes of a cluster's shards. Another process may join them in another order, and then its ids
// say nothing about these: once it has added an entry, nothing is added here, however high the ids are.
func TestStreamOfCluster(t *testing.T) {
	joined := func(from, to int) *Batch {
		b := batch(from, to)
		for i := range b.Changes {
			b.Changes[i].Position = fmt.Sprintf("c1,1=%s,2=%s", place(from+1+i), place(5))
		}
		return b
	}
	for _, c := range []struct {
		about   string
		another string // the command before which another process adds an entry
		full    bool
		want    string // ids in the end
		passes  bool   // the error
	}{
		{about: "alone", want: "60-0 70-0 80-0 90-0"},
		{about: "before the look at the stream", another: "WATCH", want: "60-0 70-0 75-0", passes: true},
		{about: "between the look and the changes", another: "MULTI", want: "60-0 70-0 75-0", passes: true},
		{about: "just before the changes are made", another: "EXEC", want: "60-0 70-0 75-0", passes: true},
		{about: "no memory is left", full: true, want: "60-0 70-0", passes: true},
	} {
		r := new(fakeRedis)
		s := &stream{conn: r.dial(t), key: "changes"}
		write(t, s, joined(0, 2))
		r.full = c.full
		r.before = func(command string) {
			if command == c.another {
				c.another = ""
				r.add("75-0", "of another process")
			}
		}
		err := s.Write(t.Context(), joined(2, 4))
		if got := strings.Join(r.ids, " "); got != c.want || c.want == "60-0 70-0 80-0 90-0" && err != nil {
			t.Errorf("%s: the stream has %s, want %s: %v", c.about, got, c.want, err)
		} else if failed := len(r.ids) < 4; failed && (err == nil || errors.Is(err, ErrBroken) != c.passes) {
			t.Errorf("%s: %v, want an error that passes: %v", c.about, err, c.passes)
		} else if failed && s.Position() != joined(0, 2).Position() {
			t.Errorf("%s: it is at %s", c.about, s.Position())
		}
	}
}

// TestStreamOfWholeBatch: changes that belong together are added by one transaction, however long they are.
func TestStreamOfWholeBatch(t *testing.T) {
	r, sent := new(fakeRedis), 0
	r.before = func(command string) {
		if command == "EXEC" {
			sent++
		}
	}
	s := &stream{conn: r.dial(t), key: "changes"}
	b := wholeBatch(0, 3)
	long := strings.Repeat("x", streamAtOnce)
	b.Text = nil
	for i := range b.Changes {
		b.Text = append(append(b.Text, long...), '\n')
		b.Changes[i].End = len(b.Text)
	}
	write(t, s, b)
	if got := strings.Join(r.ids, " "); sent != 1 || got != "10-0 20-0 30-0" {
		t.Errorf("%d transactions, and the stream has %s", sent, got)
	}
}
