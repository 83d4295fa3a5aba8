package feed

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

// scripted is a reader of a node that says one text, whatever it is asked.
func scripted(text string) *reader {
	return &reader{addrs: []string{"node"}, from: "OLDEST", wait: true, dial: func(context.Context, string) (*wire.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.WriteString(theirs, text)
			theirs.Close()
		}()
		return wire.NewConn(ours, 4096), nil
	}}
}

// TestReplies: a reply that is cut or is none of COUNTER.FEED gives an error, and the position stays.
func TestReplies(t *testing.T) {
	const reply = "*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*5\r\n$3\r\nset\r\n$1\r\nc\r\n:7\r\n$1\r\na\r\n:9\r\n"
	for cut := range len(reply) {
		r := scripted(reply[:cut])
		if b, _, err := r.next(t.Context()); err == nil || b != nil || r.from != "OLDEST" {
			t.Fatalf("cut at %d: got %v, %v, at %s", cut, b, err, r.from)
		}
	}
	for text, want := range map[string]error{
		"*1\r\n$1\r\nx\r\n": wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$1\r\np\r\n:5\r\n":                              wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$3\r\nset\r\n":     wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$5\r\nmerge\r\n":   wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*2\r\n$5\r\nflush\r\n:1": wire.ErrProtocol,
	} {
		if _, _, err := scripted(text).next(t.Context()); !errors.Is(err, want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for text, want := range map[string]*PositionError{
		"POSGONE 1-a no longer kept": {Next: "1-a"},
		"POSHISTORY 1-b another":     {History: true, Next: "1-b"},
		"POSHISTORY - another":       {History: true},
	} {
		e := refusal(&wire.ServerError{Text: text})
		if e == nil || e.Next != want.Next || e.History != want.History || !strings.Contains(e.Error(), "counterctl export with --position FILE") {
			t.Errorf("%s: got %v", text, e)
		}
	}
	if e := refusal(&wire.ServerError{Text: "LOADING"}); e != nil {
		t.Errorf("got %v", e)
	}
}
