package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newAggregator makes one of a fake server. It is closed with the test, whatever is left.
func newAggregator(t testing.TB, c *Client, o AggregatorOptions) *Aggregator {
	t.Helper()
	a, err := c.NewAggregator(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = a.Close(ctx)
	})
	return a
}

// mincrbys are the commands of an aggregator that came, and how many times a number came again.
func mincrbys(f *fake) (commands [][]string, repeats int) {
	seen := map[string][]string{}
	for _, args := range f.seen("COUNTER.MINCRBY") {
		name := strings.Join(args[len(args)-2:], " ")
		if first, again := seen[name]; again {
			repeats++
			if !slices.Equal(first, args) {
				f.t.Errorf("number %s came as %v and as %v", name, first, args)
			}
			continue
		}
		seen[name] = args
		commands = append(commands, args)
	}
	return commands, repeats
}

func TestAggregator(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	a := newAggregator(t, c, AggregatorOptions{Interval: time.Second, Shards: 1})
	ctx := t.Context()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for i := range 1000 {
				if err := a.Incr(ctx, uint64(i%4), "repost"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 5 {
		if err := a.Add(ctx, 2, "cntcm", 1<<21); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Add(ctx, 2, "comment", -1); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"0.cntrn": 2500, "1.cntrn": 2500, "2.cntrn": 2500, "3.cntrn": 2500, "2.cntcm": 5<<21 - 1} {
		if got := f.value(key); got != want {
			t.Errorf("%s is %d, want %d", key, got, want)
		}
	}
	// A second is long, but this machine may be busy.
	commands, _ := mincrbys(f)
	if n := len(commands); n == 0 || n > 100 {
		t.Errorf("%d commands for 10,006 additions", n)
	}
	if s := a.Stats(); s.Added != 10_006 || s.Commands != uint64(len(commands)) || s.Pending != 0 || s.Sums < 5 {
		t.Errorf("%+v", s)
	}
	if err := a.Add(ctx, 1, "share", 1); err == nil {
		t.Error("an unknown column was taken")
	}
	for _, n := range []int64{1<<62 + 1, -1<<62 - 1, -1 << 63, 1<<63 - 1} {
		if err := a.Add(ctx, 9, "repost", n); !errors.Is(err, ErrRange) {
			t.Errorf("addition of %d: %v", n, err)
		}
	}
	if err := a.Add(ctx, 3, "repost", 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := f.value("3.cntrn"); got != 2501 {
		t.Errorf("after Close: %d, want 2501", got)
	}
	if err := a.Incr(ctx, 3, "repost"); !errors.Is(err, ErrClosed) {
		t.Errorf("Incr after Close: %v", err)
	}
	if err := a.Flush(ctx); err != nil {
		t.Errorf("Flush after Close: %v", err)
	}
	if err := a.Close(ctx); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := c.NewAggregator(AggregatorOptions{Interval: time.Microsecond, Keys: 20_000, Pending: -1, Shards: 1000}); err == nil ||
		strings.Count(err.Error(), "want") != 4 {
		t.Errorf("bad options: %v", err)
	}
}

// TestAggregatorExact loses replies, cuts, refuses and stops the server while many goroutines add: after Close each sum
// is exact, with no budget to speak of.
func TestAggregatorExact(t *testing.T) {
	rng := random(t)
	f := newFake(t)
	c := newTest(t, f, Options{RetryBurst: 1})
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.clock.sleep = sleep
	f.set(func() {
		f.fates = func([]string) (ft fate) {
			switch rng.IntN(10) {
			case 0:
				ft.lose = true
			case 1:
				ft.late = true
			case 2:
				ft.refuse = []string{"READONLY", "LOADING", "IDMPFULL", "MISCONF"}[rng.IntN(4)]
			case 3:
				ft.answer = "UNCERTAIN"
			}
			return ft
		}
	})
	a := newAggregator(t, c, AggregatorOptions{Interval: time.Millisecond, Keys: 7, Pending: 50, Shards: 2})
	const posts, goroutines, each = 200, 8, 2000
	var want [posts]int64
	var mu sync.Mutex
	var wg, stopper sync.WaitGroup
	done := make(chan struct{})
	stopper.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(30 * time.Millisecond):
				f.stop()
				time.Sleep(5 * time.Millisecond)
				f.start()
			}
		}
	})
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				post := (g*31 + i*i) % posts
				if err := a.Add(t.Context(), uint64(post), "repost", int64(g+1)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				want[post] += int64(g + 1)
				mu.Unlock()
			}
			if err := a.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(done)
	stopper.Wait()
	for post := range posts {
		if got := f.value(fmt.Sprintf("%d.cntrn", post)); got != want[post] {
			t.Errorf("post %d has %d, want %d", post, got, want[post])
		}
	}
	if _, repeats := mincrbys(f); repeats == 0 {
		t.Error("nothing was repeated")
	}
	for _, args := range f.seen("COUNTER.MINCRBY") {
		if len(args) > 1+2*7+4 {
			t.Fatalf("a command of %d arguments", len(args))
		}
	}
}

// TestAggregatorNames calls a column by name and by suffix: it has one sum, or the two could be sent in the wrong order,
// and one be refused as out of range that is not with the other.
func TestAggregatorNames(t *testing.T) {
	f := newFake(t)
	a := newAggregator(t, newTest(t, f, Options{}), AggregatorOptions{})
	cells := map[uint32]bool{}
	for _, name := range []string{"comment", "repost", "cntcm", "cntrn", "comment", "attitude"} {
		at, err := a.column(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cells[at] = true
	}
	if len(cells) != 3 {
		t.Errorf("%d cells for 3 columns", len(cells))
	}
}

// TestAggregatorRange adds more than a column takes: others in the tick are made, and it is said that one was not.
func TestAggregatorRange(t *testing.T) {
	f := newFake(t)
	f.limit = 100
	c := newTest(t, f, Options{})
	var told []*SumsError
	a := newAggregator(t, c, AggregatorOptions{Shards: 1, OnError: func(e *SumsError) { told = append(told, e) }})
	for mid, n := range map[uint64]int64{1: 101, 2: 100} {
		if err := a.Add(t.Context(), mid, "repost", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.value("1.cntrn") != 0 || f.value("2.cntrn") != 100 {
		t.Errorf("values %v", f.values)
	}
	if len(told) != 1 || told[0].Refused != 1 || !errors.Is(told[0], ErrRange) || ClassOf(told[0]) != Permanent {
		t.Errorf("told %v", told)
	}
	// Without OnError the next Flush says it, once.
	b := newAggregator(t, c, AggregatorOptions{Shards: 1})
	if err := b.Add(t.Context(), 2, "repost", 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(t.Context()); !errors.Is(err, ErrRange) || err.Error() != "client: +1 to repost of post 2: out of the column's range" {
		t.Errorf("Flush: %v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestAggregatorDropped drops a column whose sums wait together with others: only they are refused, and each of the
// others is counted once, also where the attempt before was in doubt and comes through late.
func TestAggregatorDropped(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		f := newFake(t)
		c := newTest(t, f, Options{}, func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond })
		var told []*SumsError
		a := newAggregator(t, c, AggregatorOptions{Shards: 1, Interval: time.Second, OnError: func(e *SumsError) { told = append(told, e) }})
		for mid := range uint64(20) {
			column := "repost"
			if mid == 13 {
				column = "comment"
			}
			if err := a.Incr(t.Context(), mid, column); err != nil {
				t.Fatal(err)
			}
		}
		release := make(chan struct{})
		f.set(func() {
			f.script = strings.Replace(f.script, "add column weibo comment hint=16 max=32 default=0 suffix=cntcm\n", "", 1)
			first := true
			f.fates = func(args []string) (ft fate) {
				if args[0] == "COUNTER.MINCRBY" && first && doubt {
					ft.hold = release // the client gives it up after 100 ms
					first = false
				}
				return ft
			}
		})
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The column is back before the first attempt comes through at last.
		f.set(func() { f.script = script })
		close(release)
		f.stop()
		f.goroutine.Wait()
		for mid := range 20 {
			want := int64(1)
			if mid == 13 {
				want = 0
			}
			if got := f.value(fmt.Sprintf("%d.cntrn", mid)); got != want {
				t.Errorf("doubt %v: post %d has %d, want %d", doubt, mid, got, want)
			}
		}
		if got := f.value("13.cntcm"); got != 0 {
			t.Errorf("doubt %v: what was refused has %d", doubt, got)
		}
		if len(told) != 1 || len(told[0].Sums) != 1 || told[0].Sums[0] != (Sum{13, "comment", 1}) || ClassOf(told[0]) != Permanent {
			t.Errorf("doubt %v: told %v", doubt, told)
		}
	}
}

// TestAggregatorFull holds as many sums as it may while the server is down.
func TestAggregatorFull(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	c.clock.sleep = sleep
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.stop()
	waits := newAggregator(t, c, AggregatorOptions{Shards: 1, Pending: 10})
	refuses := newAggregator(t, c, AggregatorOptions{Shards: 1, Pending: 10, NoWait: true})
	for mid := range uint64(10) {
		for _, a := range []*Aggregator{waits, refuses} {
			if err := a.Incr(t.Context(), mid, "repost"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := refuses.Incr(t.Context(), 10, "repost"); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := waits.Incr(ctx, 10, "repost"); !errors.Is(err, context.DeadlineExceeded) || ClassOf(err) != Permanent {
		t.Errorf("one too many: %v", err)
	}
	var wg sync.WaitGroup
	for mid := range uint64(50) {
		wg.Go(func() {
			if err := waits.Incr(t.Context(), mid, "comment"); err != nil {
				t.Error(err)
			}
		})
	}
	if n := waits.Stats().Pending; n > 10 {
		t.Errorf("%d sums are held", n)
	}
	f.start()
	wg.Wait()
	for _, a := range []*Aggregator{waits, refuses} {
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for mid := range 50 {
		if got := f.value(fmt.Sprintf("%d.cntcm", mid)); got != 1 {
			t.Errorf("post %d has %d", mid, got)
		}
	}
	for mid := range 10 {
		if got := f.value(fmt.Sprintf("%d.cntrn", mid)); got != 2 {
			t.Errorf("post %d has %d reposts", mid, got)
		}
	}
}

// TestAggregatorUnfinished ends Close before the server answers: the error names the sums in doubt and those that were not
// sent.
func TestAggregatorUnfinished(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{}, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	c.clock.sleep = sleep
	a := newAggregator(t, c, AggregatorOptions{Shards: 1, Keys: 2})
	if err := a.Incr(t.Context(), 1, "repost"); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	f.set(func() {
		f.fates = func([]string) fate {
			select {
			case <-sent:
			default:
				close(sent)
			}
			return fate{lose: true}
		}
	})
	for mid := range uint64(5) {
		if err := a.Incr(t.Context(), mid, "comment"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sent
		cancel()
	}()
	err := a.Close(ctx)
	if !IsInDoubt(err) || !errors.Is(err, ErrUnfinished) {
		t.Errorf("Close: %v", err)
	}
	sums := map[Class]int{}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		if e, ok := errors.AsType[*SumsError](e); ok {
			sums[ClassOf(e)] += len(e.Sums)
			if e.Refused != len(e.Sums) {
				t.Errorf("%v", e)
			}
		}
	}
	if got := sums[InDoubt] + sums[Transient]; got != 5 || sums[InDoubt] == 0 {
		t.Errorf("%v, want 5 in all", sums)
	}
	if err := a.Flush(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush: %v", err)
	}
}

// TestAggregatorForgotten lets a server be away for so long that it forgets the producer: sums in doubt stay in doubt.
func TestAggregatorForgotten(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		f := newFake(t)
		c := newTest(t, f, Options{})
		now := time.Now()
		var mu sync.Mutex
		c.clock.now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
		var told []*SumsError
		a := newAggregator(t, c, AggregatorOptions{Shards: 1, OnError: func(e *SumsError) { told = append(told, e) }})
		if err := a.Incr(t.Context(), 1, "repost"); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.set(func() {
			f.fates = fates(fate{lose: true}, fate{refuse: "LOADING"})
			first := f.fates
			f.fates = func(args []string) fate {
				if args[0] == "COUNTER.MINCRBY" {
					mu.Lock()
					now = now.Add(200 * time.Second)
					mu.Unlock()
					if forgets && len(f.producers) > 0 && time.Until(now) > 300*time.Second {
						clear(f.producers)
					}
					return first(args)
				}
				return fate{}
			}
		})
		if err := a.Incr(t.Context(), 1, "repost"); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.value("1.cntrn"); got != 2 {
			t.Errorf("forgets %v: counted %d, want 2", forgets, got)
		}
		if len(f.seen("IDMP")) == 0 {
			t.Errorf("forgets %v: nobody asked", forgets)
		}
		if forgets != (len(told) == 1 && errors.Is(told[0], ErrForgotten) && IsInDoubt(told[0])) {
			t.Errorf("forgets %v: told %v", forgets, told)
		}
		if err := a.Incr(t.Context(), 1, "repost"); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); err != nil || f.value("1.cntrn") != 3 {
			t.Errorf("forgets %v: %v, counted %d", forgets, err, f.value("1.cntrn"))
		}
	}
}

// TestTableShrinks sums very many posts once and few from then on: the map of then is not cleared at each tick.
func TestTableShrinks(t *testing.T) {
	tb := newTable()
	for i := range uint64(100_000) {
		tb.sums[cell{i, 0}] = 1
	}
	tb.clear()
	if len(tb.sums) != 0 || tb.most != 100_000 {
		t.Fatalf("%d sums, most %d", len(tb.sums), tb.most)
	}
	tb.sums[cell{1, 0}] = 1
	tb.clear()
	if len(tb.sums) != 0 || tb.most != 0 {
		t.Fatalf("%d sums, most %d", len(tb.sums), tb.most)
	}
}

// TestAggregatorMid: a mid that is no post's is refused at once. Sent, it would have the server refuse the sums beside it.
func TestAggregatorMid(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	a, err := c.NewAggregator(AggregatorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, mid := range []uint64{1 << 63, 1<<64 - 1} {
		if err := a.Incr(t.Context(), mid, "repost"); ClassOf(err) != Permanent || err.Error() != fmt.Sprintf("client: got mid %d, want 0 to 9223372036854775807", mid) {
			t.Errorf("mid %d: %v, of class %v", mid, err, ClassOf(err))
		}
	}
	if err := a.Incr(t.Context(), 1<<63-1, "repost"); err != nil {
		t.Error(err)
	}
	if err := a.Close(t.Context()); err != nil || f.value("9223372036854775807.cntrn") != 1 {
		t.Errorf("%v, counted %d", err, f.value("9223372036854775807.cntrn"))
	}
}
