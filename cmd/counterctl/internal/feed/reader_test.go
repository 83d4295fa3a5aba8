package feed

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/wire"
)

// scripted is a reader of a node that says one text, whatever it is asked.
func scripted(t *testing.T, text string) *reader {
	n := &nodes{addrs: []string{"node"}, waits: true, log: t.Logf, refusals: map[string]struct{}{}, told: map[uint64]string{}, dial: func(context.Context, string) (*wire.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.WriteString(theirs, text)
			theirs.Close()
		}()
		return wire.NewConn(ours, 4096), nil
	}}
	r, err := n.Reader(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*reader)
}

// TestReplies: a reply that is cut or is none of COUNTER.FEED gives an error, and the position stays.
func TestReplies(t *testing.T) {
	const reply = "*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*5\r\n$3\r\nset\r\n$1\r\nc\r\n:7\r\n$1\r\na\r\n:9\r\n"
	for cut := range len(reply) {
		r := scripted(t, reply[:cut])
		if got, err := r.Read(t.Context(), feedjoin.Oldest); err == nil || got.Changes != nil {
			t.Fatalf("cut at %d: got %v, %v", cut, got, err)
		}
		r.Close()
	}
	for text, want := range map[string]error{
		"*1\r\n$1\r\nx\r\n": wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$1\r\np\r\n:5\r\n":                              wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$3\r\nset\r\n":     wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$5\r\nmerge\r\n":   wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*2\r\n$5\r\nflush\r\n:1": wire.ErrProtocol,
	} {
		r := scripted(t, text)
		if _, err := r.Read(t.Context(), feedjoin.Oldest); !errors.Is(err, want) {
			t.Errorf("%q: got %v", text, err)
		}
		r.Close()
	}
	for text, want := range map[string]*PositionError{
		"POSGONE 1-a no longer kept": {Next: "1-a"},
		"POSHISTORY 1-b another":     {History: true, Next: "1-b"},
		"POSHISTORY - another":       {History: true},
	} {
		n := &nodes{addrs: []string{"node"}, log: t.Logf, refusals: map[string]struct{}{}, told: map[uint64]string{}}
		err := n.Ends(0, feedjoin.Oldest, &nodeError{"node", &wire.ServerError{Text: text}})
		e, ok := errors.AsType[*PositionError]((&feeder{}).refused(err))
		if !ok || e.Next != want.Next || e.History != want.History || !strings.Contains(e.Error(), "counterctl export with --position FILE") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
