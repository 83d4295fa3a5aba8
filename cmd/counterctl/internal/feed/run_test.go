package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/wire"
)

// place is the position behind change n of a node's log.
func place(n uint64) string {
	p := counter.FeedPosition{Frame: n * 10}
	p.Term[0] = 1
	return p.String()
}

// numberAt is the inverse of place.
func numberAt(position string) uint64 {
	p, err := counter.ParseFeedPosition(position)
	if err != nil {
		panic(err)
	}
	return p.Frame / 10
}

// servers are nodes with the same log of so many changes, of which each third is not wanted. They break connections and refuse. The last five
// changes are shown once they are synced, as a client waits for changes or asks for NOW.
type servers struct {
	log    uint64
	synced atomic.Bool
	rng    *rand.Rand
	trials atomic.Int64
	refuse map[string]string // by address: an error
}

// dial connects to a node, which serves a few requests.
func (n *servers) dial(_ context.Context, addr string) (*wire.Conn, error) {
	if n.trials.Add(1)%5 == 4 {
		return nil, io.ErrUnexpectedEOF
	}
	ours, theirs := net.Pipe()
	requests := 1 + n.rng.IntN(6)
	cut := n.rng.IntN(40)
	go n.serve(theirs, addr, requests, cut)
	return wire.NewConn(ours, 4096), nil
}

func (n *servers) serve(c net.Conn, addr string, requests, cut int) {
	defer c.Close()
	r := wire.NewReader(c, 4096)
	for i := range requests {
		v, err := r.ReadValue()
		if err != nil {
			return
		}
		text := "-ERR unknown command 'HELLO'\r\n"
		if v.Array[0].Str != "HELLO" {
			if v.Array[2].Str == "NOW" || v.Array[len(v.Array)-2].Str == "BLOCK" {
				n.synced.Store(true)
			}
			text = n.answer(addr, v.Array[2].Str, i)
		}
		if i == requests-1 {
			text = text[:min(cut, len(text))]
		}
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

func (n *servers) answer(addr, from string, i int) string {
	if refused := n.refuse[addr]; refused != "" {
		return "-" + refused + "\r\n"
	}
	if i == 3 {
		return "-LOADING counterd is loading\r\n"
	}
	at, end := uint64(0), n.log
	if !n.synced.Load() {
		end -= min(end, 5)
	}
	switch from {
	case "OLDEST":
	case "NOW":
		at = end
	default:
		at = numberAt(from)
	}
	text, changes := "", 0
	for ; at < end && changes < 7; at++ {
		if at%3 != 2 {
			position := place(at + 1)
			text += fmt.Sprintf("*3\r\n$%d\r\n%s\r\n:5\r\n*1\r\n*3\r\n$3\r\ndel\r\n$1\r\nc\r\n:%d\r\n", len(position), position, at+1)
			changes++
		}
	}
	position := place(at)
	return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n*%d\r\n%s", len(position), position, changes, text)
}

// store is a sink that fails between and after its writes, and loses its end sometimes.
type store struct {
	rng   *rand.Rand
	kept  []uint64 // numbers of changes
	at    string
	fails bool
}

func (s *store) Position() string { return s.at }
func (s *store) Close() error     { return nil }

func (s *store) Write(_ context.Context, b *sinks.Batch) error {
	fate := 9
	if s.fails {
		fate = s.rng.IntN(10)
	}
	if fate == 0 {
		return &sinks.BrokenError{Err: errors.New("it took nothing")}
	}
	if b.After != s.at && (s.at != "" || b.After != "OLDEST") {
		return fmt.Errorf("a batch behind %s, and the sink is at %s", b.After, s.at)
	}
	for i := range b.Changes {
		s.at = b.Changes[i].Position
		if !strings.Contains(string(b.Line(i)), `"parts":[]`) {
			s.kept = append(s.kept, numberAt(s.at))
		}
		if fate == 1 && i == len(b.Changes)/2 {
			return &sinks.BrokenError{Err: errors.New("it took a half")}
		}
	}
	if fate == 2 { // and it lost changes that it had acknowledged
		s.kept = s.kept[:len(s.kept)-len(s.kept)/4]
		s.at = ""
		if len(s.kept) > 0 {
			s.at = place(s.kept[len(s.kept)-1])
		}
		return &sinks.BrokenError{Err: errors.New("it lost its end")}
	}
	return nil
}

// TestRun feeds a sink through connections that break, nodes that refuse, and a sink that fails: each change comes once, in order.
func TestRun(t *testing.T) { synctest.Test(t, testRun) }

func testRun(t *testing.T) {
	rng := seed.Rand(t)
	for round := range 20 {
		n := &servers{log: 100, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), refuse: map[string]string{}}
		if round%2 == 1 {
			n.refuse["b"] = "POSHISTORY - another log"
		}
		s := &store{rng: rng, fails: true}
		done, err := Run(t.Context(), Options{Addrs: []string{"a", "b"}, Dial: n.dial, From: "OLDEST", UntilCaughtUp: true, MarkEvery: time.Hour,
			Place: sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return s, nil }), Log: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for i := range n.log {
			if i%3 == 2 {
				continue
			}
			if want >= len(s.kept) || s.kept[want] != i+1 {
				t.Fatalf("round %d: got %v", round, s.kept)
			}
			want++
		}
		if len(s.kept) != want || s.at != place(n.log) || done.Position != s.at || !done.CaughtUp {
			t.Errorf("round %d: got %v at %s, %+v", round, s.kept, s.at, done)
		}
	}
}

// TestRunFromNow feeds from NOW a sink that refuses its first two batches, while changes are made: it gets all that came behind the first
// NOW.
func TestRunFromNow(t *testing.T) { synctest.Test(t, testRunFromNow) }

func testRunFromNow(t *testing.T) {
	const first = 6 // change behind the first NOW
	log := uint64(first - 1)
	dial := func(context.Context, string) (*wire.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			r := wire.NewReader(theirs, 4096)
			for v, err := r.ReadValue(); err == nil; v, err = r.ReadValue() {
				if v.Array[0].Str == "HELLO" {
					_, _ = io.WriteString(theirs, "*2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n")
					continue
				}
				at, from := log, v.Array[2].Str
				switch {
				case from != "NOW":
					at = numberAt(from)
				case v.Array[len(v.Array)-2].Str == "BLOCK":
					log++ // it is the next change that the reply was kept back for
				}
				text := fmt.Sprintf("*2\r\n%s*%d\r\n", bulk(place(log)), log-at)
				for n := at + 1; n <= log; n++ {
					text += fmt.Sprintf("*3\r\n%s:5\r\n*1\r\n*3\r\n%s%s:%d\r\n", bulk(place(n)), bulk("del"), bulk("c"), n)
				}
				if from == "NOW" && log == at {
					log++
				}
				if _, err := io.WriteString(theirs, text); err != nil {
					return
				}
			}
		}()
		return wire.NewConn(ours, 4096), nil
	}
	s := &store{rng: seed.Rand(t)}
	refusals := 2
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Run(ctx, Options{Addrs: []string{"a"}, Dial: dial, From: "NOW", MarkEvery: time.Hour, Log: t.Logf,
		Place: sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return &refusing{s, &refusals}, nil }),
		Progress: func(p Progress) {
			if len(s.kept) > 0 {
				stop()
			}
		}})
	if err != nil || len(s.kept) == 0 || s.kept[0] != first {
		t.Errorf("got %v, want the change %d first: %v", s.kept, first, err)
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// refusing is a store that takes nothing of some batches.
type refusing struct {
	*store
	refusals *int
}

func (r *refusing) Write(ctx context.Context, b *sinks.Batch) error {
	if *r.refusals > 0 {
		*r.refusals--
		return &sinks.BrokenError{Err: errors.New("it took nothing")}
	}
	r.at = b.After // where the feed began
	return r.store.Write(ctx, b)
}

// TestSinkFails: a sink does not work for a while, and the shards of the cluster do. The log tells of the sink alone.
func TestSinkFails(t *testing.T) { synctest.Test(t, testSinkFails) }

func testSinkFails(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	writes := 0
	s, nodes := &store{rng: seed.Rand(t)}, new(shards)
	dial := func(ctx context.Context, addr string) (*wire.Conn, error) {
		time.Sleep(time.Millisecond)
		return nodes.dial(ctx, addr)
	}
	done, err := Run(t.Context(), Options{Addrs: []string{"127.0.0.1:2"}, Dial: dial, From: "OLDEST", UntilCaughtUp: true, MarkEvery: time.Hour,
		Place: sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return &failing{s, &writes}, nil }),
		Log: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		}})
	if err != nil || done.Changes != 20 {
		t.Errorf("got %d changes, want 20: %v", done.Changes, err)
	}
	if want := []string{"waiting: a sink: it took nothing", "going on, with a sink"}; !slices.Equal(lines, want) {
		t.Errorf("got the lines %q, want %q", lines, want)
	}
}

// TestShardLeft: the sink lacks changes of a shard that has left the cluster. The error says how to go on, and a new sink goes on there.
func TestShardLeft(t *testing.T) { synctest.Test(t, testShardLeft) }

func testShardLeft(t *testing.T) {
	writes := 0
	o := Options{Addrs: []string{"127.0.0.1:2"}, Dial: (&shards{left: true}).dial, From: "OLDEST", Cursor: "files", UntilCaughtUp: true, MarkEvery: time.Hour, Log: t.Logf,
		Place: sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return &failing{new(store), &writes}, nil })}
	_, err := Run(t.Context(), o)
	if !errors.Is(err, feedjoin.ErrShardLeft) {
		t.Fatalf("got %v, want ErrShardLeft", err)
	}
	for _, want := range []string{"shard 9", "--from NOW", "counterctl export", "counterctl cursors --delete files"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	o.From, o.Cursor = "NOW", ""
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("from NOW: %v", err)
	}
}

// TestStopBesideAnother: a feed is stopped while another process writes to its sink, which refuses the position alone. The sink has all changes, and it is no error.
func TestStopBesideAnother(t *testing.T) { synctest.Test(t, testStopBesideAnother) }

func testStopBesideAnother(t *testing.T) {
	n := &servers{log: 30, rng: seed.Rand(t)} // the last change is not wanted
	s := &taken{store: &store{rng: n.rng}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done, err := Run(ctx, Options{Addrs: []string{"a"}, Dial: n.dial, From: "OLDEST", MarkEvery: time.Hour, Log: t.Logf,
		Place: sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return s, nil }),
		Progress: func(p Progress) {
			if p.CaughtUp {
				stop()
			}
		}})
	if err != nil || done.Changes != 20 || !s.refused {
		t.Errorf("got %d changes, want 20, and the position alone refused %t: %v", done.Changes, s.refused, err)
	}
}

// taken is a store to which another process writes when it is given a position alone.
type taken struct {
	*store
	refused bool
}

func (s *taken) Write(ctx context.Context, b *sinks.Batch) error {
	if strings.Contains(string(b.Text), `"parts":[]`) {
		s.refused = true
		return &sinks.BrokenError{Err: errors.New("another process adds entries")}
	}
	return s.store.Write(ctx, b)
}

// failing is a store that takes some batches, and then refuses some.
type failing struct {
	*store
	writes *int
}

func (f *failing) Write(_ context.Context, b *sinks.Batch) error {
	if *f.writes++; *f.writes > 5 && *f.writes < 14 {
		return &sinks.BrokenError{Err: errors.New("it took nothing")}
	}
	f.at = b.Position()
	return nil
}

// TestRunEnds: errors that do not pass end it, and the end of the context does not.
func TestRunEnds(t *testing.T) { synctest.Test(t, testRunEnds) }

func testRunEnds(t *testing.T) {
	rng := seed.Rand(t)
	s := &store{rng: rng}
	run := func(ctx context.Context, n *servers, o Options) error {
		n.rng = rng
		o.Dial, o.Log = n.dial, t.Logf
		if o.Place == nil {
			o.Place = sinks.NewPlace("a sink", func(context.Context) (sinks.Sink, error) { return s, nil })
		}
		_, err := Run(ctx, o)
		return err
	}
	if err := run(t.Context(), &servers{}, Options{Addrs: []string{"a"}}); !errors.Is(err, ErrNoStart) {
		t.Errorf("without a start: %v", err)
	}
	gone := map[string]string{"a": "POSGONE " + place(9) + " gone", "b": "POSGONE " + place(9) + " gone"}
	err := run(t.Context(), &servers{refuse: gone}, Options{Addrs: []string{"a", "b"}, From: place(5)})
	if e := (*PositionError)(nil); !errors.As(err, &e) || e.History || e.At != place(5) || e.Next != place(9) {
		t.Errorf("gone: %v", err)
	}
	if err := run(t.Context(), &servers{refuse: map[string]string{"a": "NOPERM no"}}, Options{Addrs: []string{"a"}, From: "OLDEST"}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("not permitted: %v", err)
	}
	broken := sinks.NewPlace("another", func(context.Context) (sinks.Sink, error) { return nil, errors.New("no such place") })
	if err := run(t.Context(), &servers{}, Options{Addrs: []string{"a"}, Place: broken, From: "OLDEST"}); err == nil || !strings.Contains(err.Error(), "another: no such place") {
		t.Errorf("no place: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o := Options{Addrs: []string{"a"}, From: "OLDEST", MarkEvery: time.Hour, Progress: func(p Progress) {
		if p.CaughtUp {
			stop()
		}
	}}
	if err := run(ctx, &servers{log: 30}, o); err != nil || s.at != place(30) || len(s.kept) != 20 {
		t.Errorf("stopped: %v, %v at %s", err, s.kept, s.at)
	}
}
