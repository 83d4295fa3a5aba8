package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestRetry goes through the fates of an increment: the final reply, and the value counted.
func TestRetry(t *testing.T) {
	readOnly := fate{refuse: "READONLY You can't write against a read only replica."}
	tests := []struct {
		name     string
		fates    []fate
		value    int64 // afterwards
		class    Class // of the error
		fails    bool
		attempts int
	}{
		{"well", nil, 1, 0, false, 1},
		{"lost once", []fate{{lose: true}}, 1, 0, false, 2},
		{"lost often", []fate{{lose: true}, {lose: true}, {lose: true}, {lose: true}}, 1, 0, false, 5},
		{"refused for now", []fate{readOnly, {refuse: "LOADING"}, {refuse: "MISCONF disk"}}, 1, 0, false, 4},
		{"uncertain", []fate{{answer: "UNCERTAIN not on disk yet"}}, 1, 0, false, 2},
		{"late", []fate{{late: true}}, 1, 0, false, 2},
		{"refused for good", []fate{{refuse: "ERR increment or decrement would overflow"}}, 0, Permanent, true, 1},
		{"fenced", []fate{{refuse: "IDMPFENCED"}}, 0, Permanent, true, 1},
		{"full", []fate{{refuse: "IDMPFULL"}}, 1, 0, false, 2},
		{"not what counterd says", []fate{{refuse: "CLUSTERDOWN"}, {refuse: "upstream failure"}}, 1, 0, false, 3},
		{"expired", []fate{{refuse: "IDMPEXPIRED"}}, 0, InDoubt, true, 1},
		{"lost, then refused for good", []fate{{lose: true}, {refuse: "ERR no such key form"}}, 1, InDoubt, true, 2},
		{"lost, then no primary", append([]fate{{lose: true}}, slices.Repeat([]fate{readOnly}, 99)...), 1, InDoubt, true, 6},
		{"no primary", slices.Repeat([]fate{readOnly}, 99), 0, Transient, true, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			c := newTest(t, f, Options{RetryBurst: 5}, func(o *redis.Options) { o.MaxRetries = 3 })
			if err := c.Warm(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.set(func() { f.fates = fates(test.fates...) })
			n, err := c.Incr(t.Context(), 1, "repost")
			if got := f.value("1.cntrn"); got != test.value {
				t.Errorf("counted %d, want %d", got, test.value)
			}
			if got := len(f.seen("INCRBY")); got != test.attempts {
				t.Errorf("sent %d times, want %d", got, test.attempts)
			}
			if (err != nil) != test.fails || err == nil && n != 1 {
				t.Fatalf("got %d, %v", n, err)
			}
			if err == nil {
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Class != test.class || e.Attempts != test.attempts || e.Producer == "" || e.Seq != 1 {
				t.Errorf("got %+v, want class %v", e, test.class)
			}
			if IsInDoubt(err) != (test.class == InDoubt) || IsTransient(err) != (test.class == Transient) {
				t.Errorf("IsInDoubt %v, IsTransient %v of %v", IsInDoubt(err), IsTransient(err), err)
			}
			if test.attempts == 6 && !errors.Is(err, ErrBudget) {
				t.Errorf("%v does not say that the budget is spent", err)
			}
			for _, args := range f.seen("INCRBY") {
				if !slices.Equal(args, f.seen("INCRBY")[0]) {
					t.Errorf("a repeat says %v, the first attempt %v", args, f.seen("INCRBY")[0])
				}
			}
		})
	}
}

// TestContext ends a context before, while and after a request is sent.
func TestContext(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{}, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Incr(ctx, 1, "repost")
	if !errors.Is(err, context.Canceled) || ClassOf(err) != Permanent || len(f.seen("INCRBY")) != 0 {
		t.Errorf("a context that was over: %v, class %v", err, ClassOf(err))
	}
	ctx, cancel = context.WithCancel(t.Context())
	f.set(func() {
		f.fates = func([]string) fate {
			cancel()
			return fate{lose: true}
		}
	})
	_, err = c.Incr(ctx, 1, "repost")
	if !errors.Is(err, context.Canceled) || !IsInDoubt(err) {
		t.Errorf("a context that ended while the request was on its way: %v", err)
	}
	if list := *c.lanes.list.Load(); slices.ContainsFunc(list, func(l *lane) bool { return l.held != 0 }) {
		t.Error("a number is still held")
	}
}

// TestRetryFor ends the repeats by time.
func TestRetryFor(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{RetryFor: time.Second})
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.set(func() { f.fates = func([]string) fate { return fate{refuse: "READONLY"} } })
	now := time.Now()
	c.clock.now = func() time.Time { return now }
	c.clock.random = func(n int64) int64 { return n - 1 } // the longest wait
	c.clock.sleep = func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
	began := now
	_, err := c.Incr(t.Context(), 1, "repost")
	if !errors.Is(err, ErrRetryFor) || !IsTransient(err) {
		t.Errorf("got %v", err)
	}
	// 5 10 20 40 80 160 320 320 ms: the next 320 would pass a second.
	if got, want := now.Sub(began), 955*time.Millisecond; got != want || len(f.seen("INCRBY")) != 9 {
		t.Errorf("repeated for %v, %d attempts; want %v, 9", got, len(f.seen("INCRBY")), want)
	}
}

func TestJitter(t *testing.T) {
	rng := random(t)
	c := clock{random: rng.Int64N}
	for attempts := 1; attempts < 100; attempts++ {
		bound := 320 * time.Millisecond
		if attempts < 7 {
			bound = 5 * time.Millisecond << (attempts - 1)
		}
		low, high := bound, time.Duration(0)
		for range 1000 {
			d := c.jitter(attempts)
			low, high = min(low, d), max(high, d)
		}
		// All of the range is used: a thousand draws all miss a tenth of it once in 10^45.
		if low < 0 || low > bound/10 || high > bound || high < bound-bound/10 {
			t.Errorf("after %d attempts: %v to %v, want 0 to %v", attempts, low, high, bound)
		}
	}
}
