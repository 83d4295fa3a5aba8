package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
		"*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$1\r\np\r\n:5\r\n":                                                            wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$3\r\nset\r\n":                                   wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*1\r\n$5\r\nmerge\r\n":                                 wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*2\r\n$5\r\nflush\r\n:1":                               wire.ErrProtocol,
		"*2\r\n$1\r\nx\r\n*1\r\n*3\r\n$1\r\np\r\n:5\r\n*1\r\n*4\r\n$3\r\ndel\r\n$1\r\nc\r\n:7\r\n*1\r\n$1\r\na\r\n": wire.ErrProtocol,
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

// TestHeadlessShard: a shard without a primary is an error, with the shards that have one. So is a node that was just started.
func TestHeadlessShard(t *testing.T) {
	const shard = "*4\r\n$5\r\nslots\r\n*0\r\n$5\r\nnodes\r\n*1\r\n*8\r\n$4\r\nport\r\n:1\r\n$8\r\nendpoint\r\n$1\r\na\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$6\r\nhealth\r\n"
	online, away, empty := shard+"$6\r\nonline\r\n", shard+"$4\r\nfail\r\n", "*4\r\n$5\r\nslots\r\n*0\r\n$5\r\nnodes\r\n*0\r\n"
	started := "*1\r\n" + strings.Replace(online, ":1", ":9", 1)
	for shards, want := range map[string]error{
		"*0\r\n":                  errNoPrimary,
		started:                   errNoPrimary,
		"*2\r\n" + online + empty: nil,
		"*2\r\n" + online + away:  errNoPrimary,
		"*2\r\n" + away + online:  errNoPrimary,
	} {
		answers := map[string]string{"HELLO": "*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n", "SHARDS": shards, "MYSHARDID": "$2\r\n07\r\n"}
		n := &nodes{addrs: []string{"a:1", "b:1"}, log: t.Logf, told: map[uint64]string{}, dial: func(_ context.Context, addr string) (*wire.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				answers := maps.Clone(answers)
				if addr == "a:9" {
					answers["MYSHARDID"] = "$4\r\n0000\r\n"
				}
				r := wire.NewReader(theirs, 4096)
				for {
					v, err := r.ReadValue()
					if err != nil {
						return
					}
					_, _ = io.WriteString(theirs, answers[v.Array[len(v.Array)-1].Str])
				}
			}()
			return wire.NewConn(ours, 4096), nil
		}}
		ids, err := n.Shards(t.Context())
		some := []uint64{7}
		if shards == started || shards == "*0\r\n" {
			some = nil
		}
		if !errors.Is(err, want) || !slices.Equal(ids, some) || !n.cluster || err != nil && n.Ends(0, "", err) != nil {
			t.Errorf("%q: got the shards %v, %v, want %v and %v", shards, ids, err, some, want)
		}
	}
}

// TestOneAsks: while the reader of a shard asks for all primaries, the reader of another shard waits for the answer. It reports no error.
func TestOneAsks(t *testing.T) { synctest.Test(t, testOneAsks) }

func testOneAsks(t *testing.T) {
	primary := func(port string) string {
		return "*4\r\n$5\r\nslots\r\n*0\r\n$5\r\nnodes\r\n*1\r\n*8\r\n$4\r\nport\r\n:" + port + "\r\n$8\r\nendpoint\r\n$1\r\na\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" +
			"$6\r\nhealth\r\n$6\r\nonline\r\n"
	}
	answers := map[string]string{"HELLO": "*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n", "SHARDS": "*2\r\n" + primary("1") + primary("2")}
	answer := make(chan struct{})
	n := newNodes(&Options{Addrs: []string{"a:1"}, Log: t.Logf, Dial: func(_ context.Context, addr string) (*wire.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			r := wire.NewReader(theirs, 4096)
			for v, err := r.ReadValue(); err == nil; v, err = r.ReadValue() {
				<-answer
				text := answers[v.Array[len(v.Array)-1].Str]
				if text == "" { // MYSHARDID
					text = "$1\r\n" + addr[2:] + "\r\n"
				}
				_, _ = io.WriteString(theirs, text)
			}
		}()
		return wire.NewConn(ours, 4096), nil
	}})
	got := make(chan string, 2)
	for shard := range uint64(2) {
		go func() {
			addr, err := n.node(t.Context(), 1+shard)
			got <- fmt.Sprintf("%d %s %v", 1+shard, addr, err)
		}()
	}
	synctest.Wait()
	close(answer)
	found := []string{<-got, <-got}
	slices.Sort(found)
	if want := []string{"1 a:1 <nil>", "2 a:2 <nil>"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
	synctest.Wait() // for the ends of connections
}

// TestAskedBefore: the reader of a shard that does not ask again gets the error with which the nodes have just answered. An end of the feed is none.
func TestAskedBefore(t *testing.T) { synctest.Test(t, testAskedBefore) }

func testAskedBefore(t *testing.T) {
	away := errors.New("it does not answer")
	n := newNodes(&Options{Addrs: []string{"a:1"}, Log: t.Logf, Dial: func(ctx context.Context, _ string) (*wire.Conn, error) {
		return nil, cmp.Or(ctx.Err(), away)
	}})
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := n.node(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the feed", err)
	}
	for shard := range uint64(3) {
		if addr, err := n.node(t.Context(), 1+shard); !errors.Is(err, away) {
			t.Errorf("shard %d: got %q and %v, want %v", 1+shard, addr, err, away)
		}
	}
}
