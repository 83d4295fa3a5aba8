package feed

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// shards are the primaries of a cluster of shards 2 and 3. Each has the cursor search, and shard 3 the lost cursor old.
type shards struct {
	mu       sync.Mutex
	headless bool // shard 3 has no primary
	left     bool // the first change of shard 3 is the gain of a shard that is there no more
	sent     []string
}

func (s *shards) dial(_ context.Context, addr string) (*wire.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		for r := wire.NewReader(theirs, 4096); ; {
			v, err := r.ReadValue()
			if err != nil {
				return
			}
			if _, err := io.WriteString(theirs, s.answer(addr, v.Text())); err != nil {
				return
			}
		}
	}()
	return wire.NewConn(ours, 4096), nil
}

func words(list ...string) (text string) {
	for _, w := range list {
		text += bulk(w)
	}
	return text
}

func cursor(name string, behind, lag, lost int) string {
	return fmt.Sprintf("*12\r\n%s$3\r\nset\r\n:5000\r\n$5\r\nbytes\r\n:%d\r\n$3\r\nlag\r\n:%d\r\n$4\r\nlost\r\n:%d\r\n", words("name", name, "position", place(3)), behind, lag, lost)
}

func (s *shards) answer(addr, command string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := addr[len(addr)-1:]
	command = strings.ReplaceAll(command, "\n", " ")
	switch command {
	case "HELLO":
		return "*2\r\n" + words("mode", "cluster")
	case "CLUSTER MYSHARDID":
		return bulk(strings.Repeat("0", 39) + number)
	case "CLUSTER SHARDS":
		text := "*2\r\n"
		for _, port := range []string{"2", "3"} {
			health := "online"
			if s.headless && port == "3" {
				health = "failed"
			}
			text += "*2\r\n" + bulk("nodes") + "*1\r\n*8\r\n" + words("endpoint", "127.0.0.1", "port", port, "role", "master", "health", health)
		}
		return text
	case "COUNTER.CURSOR LIST":
		if number == "2" {
			return "*1\r\n" + cursor("search", 100, 2500, 0)
		}
		return "*2\r\n" + cursor("old", 0, 0, 1) + cursor("search", 7, 30, 0)
	}
	if at, ok := strings.CutPrefix(command, "COUNTER.FEED FROM "); ok {
		return s.feed(strings.Fields(at)[0], s.left && number == "3")
	}
	s.sent = append(s.sent, number+" "+command)
	if command == "COUNTER.CURSOR GET files" {
		return "$-1\r\n"
	}
	if command == "COUNTER.CURSOR DEL search" || command == "COUNTER.CURSOR DEL old" && number == "3" {
		return ":1\r\n"
	}
	return ":0\r\n"
}

// feed is the next of the ten changes of a shard.
func (s *shards) feed(from string, left bool) string {
	n := uint64(10)
	if from != "NOW" {
		n = numberAt(from)
	}
	if n == 10 {
		return fmt.Sprintf("*2\r\n%s*0\r\n", bulk(place(n)))
	}
	next := bulk(place(n + 1))
	if left && n == 0 {
		return fmt.Sprintf("*2\r\n%s*1\r\n*3\r\n%s:5\r\n*1\r\n*5\r\n%s:9\r\n:500\r\n", next, next, words("gain", "m", "0-3"))
	}
	return fmt.Sprintf("*2\r\n%s*1\r\n*3\r\n%s:5\r\n*1\r\n*3\r\n%s%s:%d\r\n", next, next, bulk("del"), bulk("c"), n+1)
}

// TestCursors: cursors of all shards are listed and deleted, and a shard without a primary is an error.
func TestCursors(t *testing.T) {
	s := new(shards)
	o := Options{Addrs: []string{"127.0.0.1:2"}, Dial: s.dial}
	list, err := Cursors(t.Context(), o)
	set := time.Unix(5, 0)
	want := []CursorState{{"search", 2, set, 100, 2500 * time.Millisecond, false}, {"old", 3, set, 0, 0, true}, {"search", 3, set, 7, 30 * time.Millisecond, false}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
	for name, want := range map[string]int{"search": 2, "old": 1, "none": 0} {
		s.sent = nil
		n, err := DeleteCursor(t.Context(), o, name)
		if sent := []string{"2 COUNTER.CURSOR DEL " + name, "3 COUNTER.CURSOR DEL " + name}; n != want || err != nil || !slices.Equal(s.sent, sent) {
			t.Errorf("%s: %d deleted, %v, by %q", name, n, err, s.sent)
		}
	}
	s.headless = true
	if list, err := Cursors(t.Context(), o); err == nil {
		t.Errorf("a shard has no primary: got %v", list)
	}
	if n, err := DeleteCursor(t.Context(), o, "search"); n != 1 || err == nil {
		t.Errorf("a shard has no primary: got %d deleted, %v", n, err)
	}
}
