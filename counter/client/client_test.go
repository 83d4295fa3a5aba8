package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// newTest makes a client of a fake server that never waits between attempts.
func newTest(t testing.TB, f *fake, o Options, change ...func(*redis.Options)) *Client {
	t.Helper()
	c, err := New(f.dial(change...), o)
	if err != nil {
		t.Fatal(err)
	}
	c.clock.sleep = func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }
	return c
}

func TestCommands(t *testing.T) {
	for _, counter := range []string{"", "weibo"} {
		f := newFake(t)
		c := newTest(t, f, Options{Counter: counter})
		ctx := t.Context()
		if n, err := c.Incr(ctx, 7, "repost"); n != 1 || err != nil {
			t.Errorf("Incr: %d, %v", n, err)
		}
		if n, err := c.Add(ctx, 7, "cntrn", 4); n != 5 || err != nil {
			t.Errorf("Add by suffix: %d, %v", n, err)
		}
		if n, err := c.Add(ctx, 7, "repost", -2); n != 3 || err != nil {
			t.Errorf("Add of less than nothing: %d, %v", n, err)
		}
		if err := c.Set(ctx, 7, "comment", 11); err != nil {
			t.Errorf("Set: %v", err)
		}
		if err := c.Set(ctx, 7, "attitude", 0); err != nil {
			t.Errorf("Set: %v", err)
		}
		if n, ok, err := c.Get(ctx, 7, "comment"); n != 11 || !ok || err != nil {
			t.Errorf("Get: %d, %v, %v", n, ok, err)
		}
		if _, ok, err := c.Get(ctx, 8, "comment"); ok || err != nil {
			t.Errorf("Get of a post that is not there: %v, %v", ok, err)
		}
		row, err := c.Row(ctx, 7)
		if err != nil || !row.Exists || row.Mid != 7 || !slices.Equal(row.Values, []int64{11, 3, 0}) {
			t.Errorf("Row: %+v, %v", row, err)
		}
		rows, err := c.Page(ctx, []uint64{8, 7}, "repost", "cntcm")
		if err != nil || len(rows) != 2 || rows[0].Exists || !slices.Equal(rows[1].Values, []int64{3, 11}) {
			t.Errorf("Page: %+v, %v", rows, err)
		}
		if rows, err := c.Page(ctx, nil); err != nil || len(rows) != 0 {
			t.Errorf("Page of nothing: %+v, %v", rows, err)
		}
		if n, ok, err := c.Take(ctx, 7, "comment"); n != 11 || !ok || err != nil {
			t.Errorf("Take: %d, %v, %v", n, ok, err)
		}
		if _, ok, err := c.Take(ctx, 8, "comment"); ok || err != nil {
			t.Errorf("Take of nothing: %v, %v", ok, err)
		}
		if names, err := c.Columns(ctx); err != nil || !slices.Equal(names, []string{"comment", "repost", "attitude"}) {
			t.Errorf("Columns: %v, %v", names, err)
		}
		want := "7.cntrn"
		if counter != "" {
			want = counter + ":" + want
		}
		if key := f.seen("INCRBY")[0][1]; key != want {
			t.Errorf("counter %q: key %q, want %q", counter, key, want)
		}
	}
}

// TestWarm opens as many connections as the options say, and fails where there is no server.
func TestWarm(t *testing.T) {
	for _, idle := range []int{0, 5} {
		f := newFake(t)
		rdb := f.dial(func(o *redis.Options) { o.PoolSize, o.MinIdleConns = 30, idle })
		c, err := New(rdb, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := uint32(30)
		if idle > 0 {
			want = uint32(idle)
		}
		if stats := rdb.PoolStats(); stats.IdleConns < want || stats.TotalConns < want {
			t.Errorf("MinIdleConns %d: %d connections, %d idle, want %d", idle, stats.TotalConns, stats.IdleConns, want)
		}
		if n := len(f.seen("SCHEMA")); n != 1 {
			t.Errorf("SCHEMA was asked %d times", n)
		}
		f.stop()
		other := newTest(t, f, Options{RetryBurst: 1})
		if err := other.Warm(t.Context()); !IsTransient(err) {
			t.Errorf("without a server: %v", err)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	_, err := c.Incr(t.Context(), 1, "share")
	if e, ok := errors.AsType[*ColumnError](err); !ok || e.Counter != "weibo" || e.Column != "share" || ClassOf(err) != Permanent {
		t.Errorf("a column that is not there: %v", err)
	}
	// One that was added since is found, once a second has passed since the schema was read.
	f.set(func() { f.script += "add column weibo share hint=8 max=32 default=0 suffix=cntsh\n" })
	now := time.Now().Add(2 * time.Second)
	c.clock.now = func() time.Time { return now }
	if n, err := c.Incr(t.Context(), 1, "share"); n != 1 || err != nil {
		t.Errorf("a column that was added: %d, %v", n, err)
	}
	other := newTest(t, f, Options{Counter: "nowhere"})
	if _, err := other.Incr(t.Context(), 1, "share"); err == nil || !strings.Contains(err.Error(), `no counter "nowhere"`) {
		t.Errorf("a counter that is not there: %v", err)
	}
}

// TestDroppedColumn drops a column and adds another one: a page that was asked for by the old list is not answered by
// the wrong names.
func TestDroppedColumn(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	for _, column := range []string{"comment", "repost", "attitude"} {
		if err := c.Set(t.Context(), 1, column, 5); err != nil {
			t.Fatal(err)
		}
	}
	f.set(func() {
		f.script = strings.Replace(f.script, "add column weibo repost hint=16 max=32 default=0 suffix=cntrn\n", "", 1)
		f.script += "add column weibo share hint=8 max=32 default=0 suffix=cntsh\n"
		f.values["1.cntsh"] = 9
	})
	rows, err := c.Page(t.Context(), []uint64{1})
	if err != nil || !slices.Equal(rows[0].Values, []int64{5, 5, 9}) {
		t.Errorf("got %+v, %v, want comment 5, attitude 5, share 9", rows, err)
	}
	if _, err := c.Page(t.Context(), []uint64{1}, "repost"); err == nil {
		t.Error("a column that was dropped is answered")
	}
}

func TestOptions(t *testing.T) {
	f := newFake(t)
	for _, o := range []Options{{RetryFor: -1}, {RetryFor: time.Hour}, {RetryPercent: 101}, {RetryBurst: -1}, {Producers: 2000}, {PageMids: -1}, {SchemaFor: -1}} {
		if _, err := New(f.dial(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestLongPage asks for more posts than one command takes.
func TestLongPage(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{PageMids: 10})
	mids := make([]uint64, 95)
	for i := range mids {
		mids[i] = uint64(i)
		if i%3 > 0 {
			if err := c.Set(t.Context(), mids[i], "repost", int64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows, err := c.Page(t.Context(), mids, "repost")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if row.Mid != uint64(i) || row.Exists != (i%3 > 0) || row.Exists && row.Values[0] != int64(i) {
			t.Errorf("row %d is %+v", i, row)
		}
	}
	if asked := len(f.seen("COUNTER.MGET")); asked != 10 {
		t.Errorf("%d commands, want 10", asked)
	}
	f.set(func() {
		f.fates = fates(fate{lose: true}, fate{refuse: "UNCERTAIN"})
	})
	if _, err := c.Page(t.Context(), mids[:5], "repost"); err != nil {
		t.Errorf("a page whose first answer is lost: %v", err)
	}
	f.set(func() { f.fates = func([]string) fate { return fate{refuse: "UNCERTAIN"} } })
	c.budget = newBudget(10, 1)
	if _, err := c.Page(t.Context(), mids[:5], "repost"); !IsTransient(err) {
		t.Errorf("a page that cannot be shown now: %v", err)
	}
	f.set(func() {
		f.fates = func(args []string) fate {
			if args[2] == "50" {
				return fate{refuse: "IOERR page is damaged"}
			}
			return fate{}
		}
	})
	if _, err := c.Page(t.Context(), mids, "repost"); err == nil || !strings.Contains(err.Error(), "IOERR") {
		t.Errorf("a part that cannot be read: %v", err)
	}
}

// fates answers each try of a command by the next fate; then all goes well.
func fates(list ...fate) func([]string) fate {
	return func([]string) (f fate) {
		if len(list) > 0 {
			f, list = list[0], list[1:]
		}
		return f
	}
}

// TestRetry walks what may happen to an increment: what it is answered in the end, and what was counted.
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

// TestBudget makes repeats of 10 % of the requests, and a burst.
func TestBudget(t *testing.T) {
	b := newBudget(10, 50)
	took := func() (n int) {
		for b.repeat() {
			n++
		}
		return n
	}
	if n := took(); n != 50 {
		t.Errorf("a new budget has %d repeats, want 50", n)
	}
	for range 9 {
		b.request()
	}
	if n := took(); n != 0 {
		t.Errorf("9 requests give %d repeats", n)
	}
	b.request()
	if n := took(); n != 1 {
		t.Errorf("10 requests give %d repeats", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 30 {
				b.request()
			}
		})
	}
	wg.Wait()
	if n := took(); n != 24 {
		t.Errorf("240 requests give %d repeats", n)
	}
	for range 10_000 {
		b.request()
	}
	if n := took(); n != 50 {
		t.Errorf("10,000 requests give %d repeats, want the burst", n)
	}
}

// TestLanesHold checks the rule that repeats stand on: no number is given out 64 or more above one that is still held.
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
			// Mostly new ones: one that is stuck stays so for long.
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

// TestExact lets fifty goroutines increment while replies are lost, connections cut, errors answered and the server
// stopped: what was acknowledged is counted once, what was refused not at all.
func TestExact(t *testing.T) {
	rng := random(t)
	f := newFake(t)
	c := newTest(t, f, Options{RetryBurst: 100_000})
	c.clock.sleep = sleep
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		f.fates = func([]string) (ft fate) {
			switch rng.IntN(40) {
			case 0:
				ft.lose = true
			case 1:
				ft.late = true
			case 2:
				ft.refuse = "READONLY"
			case 3:
				ft.answer = "UNCERTAIN"
			}
			return ft
		}
	})
	const posts, goroutines, each = 7, 50, 100
	var sure, doubt [posts]int64
	var mu sync.Mutex
	var wg, stopper sync.WaitGroup
	done := make(chan struct{})
	stopper.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				f.stop()
				time.Sleep(time.Millisecond)
				f.start()
			}
		}
	})
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				post := (g + i) % posts
				_, err := c.Add(t.Context(), uint64(post), "repost", 3)
				mu.Lock()
				if err == nil {
					sure[post] += 3
				} else if IsInDoubt(err) {
					doubt[post] += 3
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(done)
	stopper.Wait()
	for post := range posts {
		got := f.value(fmt.Sprintf("%d.cntrn", post))
		if got < sure[post] || got > sure[post]+doubt[post] {
			t.Errorf("post %d has %d, want %d and at most %d in doubt", post, got, sure[post], doubt[post])
		}
		if doubt[post] > 0 {
			t.Errorf("post %d: %d in doubt with a budget that suffices", post, doubt[post])
		}
	}
}

// TestReplicas asks a go-redis cluster client that reads from replicas: a node that goes down is left, one that comes
// back is used, and the caller sees no error while one of them answers.
func TestReplicas(t *testing.T) {
	primary, replica := newFake(t), newFake(t)
	node := func(f *fake, id string) string {
		_, port, _ := strings.Cut(f.addr, ":")
		return fmt.Sprintf("*3\r\n$9\r\n127.0.0.1\r\n:%s\r\n$1\r\n%s\r\n", port, id)
	}
	slots := "*1\r\n*4\r\n:0\r\n:16383\r\n" + node(primary, "a") + node(replica, "b")
	for _, f := range []*fake{primary, replica} {
		f.set(func() {
			f.slots = slots
			for mid := range 300 {
				f.values[fmt.Sprintf("weibo:{%d}.cntrn", mid)] = int64(mid)
			}
		})
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{primary.addr, replica.addr}, RouteRandomly: true, DialerRetries: 1, FailingTimeoutSeconds: 1,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond,
		// The fakes refuse HELLO, and then go-redis writes to this setting, which its clients of all nodes share.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	t.Cleanup(func() { rdb.Close() })
	c, err := New(rdb, Options{Counter: "weibo", RetryBurst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	mids := make([]uint64, 300)
	for i := range mids {
		mids[i] = uint64(i)
	}
	page := func(when string) {
		t.Helper()
		rows, err := c.Page(t.Context(), mids, "repost")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		for i, row := range rows {
			if !row.Exists || row.Values[0] != int64(i) {
				t.Fatalf("%s: row %d is %+v", when, i, row)
			}
		}
		if n, ok, err := c.Get(t.Context(), 7, "repost"); n != 7 || !ok || err != nil {
			t.Fatalf("%s: Get: %d, %v, %v", when, n, ok, err)
		}
	}
	asked := func(f *fake) int { return len(f.seen("HMGET")) }
	page("both up")
	if asked(primary) == 0 || asked(replica) == 0 || asked(primary)+asked(replica) != 300 {
		t.Errorf("%d and %d asked, want both", asked(primary), asked(replica))
	}
	for _, f := range []*fake{replica, primary} {
		f.stop()
		page("one down")
		f.start()
		page("it is back")
	}
	if n, err := c.Incr(t.Context(), 7, "repost"); n != 8 || err != nil || primary.value("weibo:{7}.cntrn") != 8 {
		t.Errorf("Incr: %d, %v", n, err)
	}
}
