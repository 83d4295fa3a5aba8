package client

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestLanesHold checks the rule that repeats stand on: no number is given out 64 or more above a number still held.
func TestLanesHold(t *testing.T) {
	rng := random(t)
	ls := newLanes(2, 3)
	type given struct {
		l   *lane
		seq uint64
		n   int
	}
	var out []given
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next := map[*lane]uint64{}
	total, refused := 0, 0
	for range 50_000 {
		if rng.IntN(100) < 52 {
			n := 1
			if rng.IntN(10) == 0 {
				n = 1 + rng.IntN(atOnce)
			}
			l, seq, err := ls.take(ctx, n)
			if err != nil {
				if refused++; len(*ls.list.Load()) != 3 {
					t.Fatalf("refused with %d lanes", len(*ls.list.Load()))
				}
			} else {
				if seq != next[l]+1 {
					t.Fatalf("got number %d after %d", seq, next[l])
				}
				next[l] += uint64(n)
				total += n
				out = append(out, given{l, seq, n})
				for _, o := range out {
					if o.l == l && next[l]-o.seq >= window {
						t.Fatalf("number %d was given while %d is unknown", next[l], o.seq)
					}
				}
			}
		}
		if len(out) > 0 && rng.IntN(100) < 50 {
			// Mostly new ones: a stuck request stays so for long.
			i := len(out) - 1 - min(rng.IntN(len(out)), rng.IntN(len(out)))
			ls.known(out[i].l, out[i].seq, out[i].n)
			out = slices.Delete(out, i, i+1)
		}
	}
	if total < 1000 || refused == 0 {
		t.Errorf("%d numbers were given, %d times none", total, refused)
	}
}

// TestLanesWait lets far more goroutines than there are numbers take them: all get theirs, none sleeps for ever.
func TestLanesWait(t *testing.T) {
	ls := newLanes(1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			for range 100 {
				l, seq, err := ls.take(ctx, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if rand.IntN(8) == 0 {
					time.Sleep(time.Microsecond)
				}
				ls.known(l, seq, 1)
			}
		})
	}
	wg.Wait()
	if n := (*ls.list.Load())[0].next; n != 30_001 {
		t.Errorf("the next number is %d, want 30001", n)
	}
}

// TestLanesWakeAll gives all numbers back at once: as many waiters get them, none is left asleep.
func TestLanesWakeAll(t *testing.T) {
	ls := newLanes(1, 1)
	for range window {
		if _, seq := ls.try(1); seq == 0 {
			t.Fatal("a new lane has fewer numbers than its window")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range window {
		wg.Go(func() {
			if _, _, err := ls.take(ctx, 1); err != nil {
				t.Error(err)
			}
		})
	}
	for ls.waiting.Load() < window {
		time.Sleep(time.Millisecond)
	}
	l := (*ls.list.Load())[0]
	for seq := range uint64(window) {
		ls.known(l, seq+1, 1)
	}
	wg.Wait()
}

// TestStuck holds one request back while others go on: it is not passed by so many that it could not be repeated.
func TestStuck(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{Producers: 1})
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	f.set(func() {
		first := true
		f.fates = func(args []string) (ft fate) {
			if args[0] == "INCRBY" && first {
				first = false
				ft = fate{hold: hold, lose: true}
			}
			return ft
		}
	})
	var wg sync.WaitGroup
	stuck := make(chan error, 1)
	wg.Go(func() {
		_, err := c.Incr(t.Context(), 1, "repost")
		stuck <- err
	})
	for len(f.seen("INCRBY")) == 0 {
		time.Sleep(time.Millisecond)
	}
	for range window - 1 {
		if _, err := c.Incr(t.Context(), 2, "repost"); err != nil {
			t.Fatal(err)
		}
	}
	if _, seq := c.lanes.try(1); seq != 0 {
		t.Errorf("number %d is given while 1 is unknown", seq)
	}
	close(hold)
	wg.Wait()
	if err := <-stuck; err != nil || f.value("1.cntrn") != 1 {
		t.Errorf("the stuck one: %v, counted %d", err, f.value("1.cntrn"))
	}
}
