package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// model applies items to a map.
func model(f *fake, values map[string]int64, items []mapping.Item) {
	for _, i := range items {
		c := f.columns()[i.Column]
		name := fmt.Sprintf("%s:%d %s", c.Counter.Name, i.Mid, c.Counter.Columns[c.Index].Name)
		switch i.Op {
		case mapping.Set:
			values[name] = i.Value
		case mapping.Add:
			values[name] += i.Value
		case mapping.Delete:
			delete(values, name)
		}
	}
}

func randomItems(rng *rand.Rand, n int, mids uint64) []mapping.Item {
	items := make([]mapping.Item, n)
	for i := range items {
		items[i] = mapping.Item{Mid: rng.Uint64N(mids), Column: uint16(rng.IntN(3)), Op: mapping.Op(min(rng.IntN(8), 2)), Value: rng.Int64N(10)}
		if items[i].Op == mapping.Delete && rng.IntN(8) > 0 {
			items[i].Op = mapping.Add
		}
	}
	return items
}

// TestSink: whatever happens to connections and commands, each number has the value that the items give it.
func TestSink(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f := newFake(t)
		fates := []fate{{lost: true, cut: true}, {cut: true}, {lost: true, answer: "LOADING data"}, {lost: true, answer: "READONLY replica"},
			{answer: "UNCERTAIN the disk"}, {lost: true, answer: "OOM memory"}}
		f.next = func([]string) fate {
			if n := rng.IntN(100); n < len(fates) {
				return fates[n]
			}
			return fate{}
		}
		s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns(), Producer: "p"})
		defer s.Close()
		want := map[string]int64{}
		for range 12 {
			items := randomItems(rng, rng.IntN(5000), 3000)
			model(f, want, items)
			if err := s.Write(t.Context(), items); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			same := maps.Equal(f.values, want)
			f.mu.Unlock()
			if !same {
				t.Fatalf("the server has other numbers than were written (seed %d)", seed)
			}
		}
		if s.Refused() != 0 {
			t.Errorf("%d refused, want none", s.Refused())
		}
	})
}

// TestSinkAgain: a chunk of additions that is written again behind the same number counts once.
func TestSinkAgain(t *testing.T) {
	f := newFake(t)
	write := func(seq uint64, items []mapping.Item) (uint64, error) {
		s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns(), Producer: "p"})
		defer s.Close()
		s.SetSeq(seq)
		err := s.Write(t.Context(), items)
		return s.Seq(), err
	}
	items := make([]mapping.Item, 2000)
	for i := range items {
		items[i] = mapping.Item{Mid: uint64(i % 1500), Column: 0, Op: mapping.Add, Value: 3}
	}
	for range 3 {
		if seq, err := write(7, items); seq != 10 || err != nil {
			t.Fatal(seq, err)
		}
	}
	if f.values["weibo:1 repost"] != 6 || f.values["weibo:1499 repost"] != 3 {
		t.Errorf("counted %d and %d, want 6 and 3", f.values["weibo:1 repost"], f.values["weibo:1499 repost"])
	}
	many := make([]mapping.Item, 120_000)
	for i := range many {
		many[i] = mapping.Item{Mid: uint64(i), Column: 2, Op: mapping.Add, Value: 1}
	}
	for range 2 {
		if seq, err := write(100, many); seq > 200 || err != nil {
			t.Fatalf("%d numbers, %v: a server remembers 128", seq-100, err)
		}
	}
	if f.values["video:119999 plays"] != 1 {
		t.Errorf("counted %d, want 1", f.values["video:119999 plays"])
	}
	if _, err := write(7, items[1:]); err == nil || !strings.Contains(err.Error(), "IDMPMISMATCH") {
		t.Errorf("other items behind the same number: %v", err)
	}
	if _, err := write(300, make([]mapping.Item, ChunkMax+1)); !errors.Is(err, ErrChunk) {
		t.Errorf("a chunk that is too large: %v", err)
	}
}

// TestSinkRefused: an item that cannot be written ends the writing, at once or after all retries, with the reason;
// an addition out of its column's range is counted.
func TestSinkRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, waited := range map[string]time.Duration{"NOPERM no": 0, "READONLY This port is for reads only: no": 0, "IDMPEXPIRED old": 0,
			"READONLY replica": 30 * time.Second, "OOM full": 30 * time.Second} {
			f := newFake(t)
			f.next = func(args []string) fate {
				if args[0] == "INFO" {
					return fate{}
				}
				return fate{lost: true, answer: text}
			}
			logged := 0
			s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns(), Patience: 30 * time.Second, Log: func(string) { logged++ }})
			start := time.Now()
			var refused *TargetError
			err := s.Write(t.Context(), []mapping.Item{{Mid: 1}})
			if took := time.Since(start); !errors.As(err, &refused) || !strings.Contains(err.Error(), text) || took < waited || took > waited+5*time.Second {
				t.Errorf("%s: %v after %v", text, err, took)
			}
			if waited > 0 && logged != 1 {
				t.Errorf("%s: logged %d times, want once", text, logged)
			}
			s.Close()
		}
	})
	f := newFake(t)
	s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns(), Producer: "p"})
	defer s.Close()
	err := s.Write(t.Context(), []mapping.Item{{Mid: 1, Column: 1, Op: mapping.Add, Value: 70000}, {Mid: 2, Column: 1, Op: mapping.Add, Value: 7}, {Mid: 3, Op: mapping.Add, Value: -1}})
	if err != nil || s.Refused() != 2 || f.values["weibo:2 attitude"] != 7 {
		t.Errorf("%v, %d refused, %v", err, s.Refused(), f.values)
	}
}

// TestSinkEnds: the end of a context ends a write that waits.
func TestSinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.next = func([]string) fate { return fate{lost: true, answer: "LOADING"} }
		s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()})
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Write(ctx, []mapping.Item{{Mid: 1}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestSinkRate: no more than the rate is written.
func TestSinkRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := NewSink(SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns(), Rate: 2000})
		defer s.Close()
		start := time.Now()
		for mid := range uint64(20_000) {
			if err := s.Put(t.Context(), mapping.Item{Mid: mid}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("20,000 items at 2,000 a second took %v", took)
		}
	})
}
