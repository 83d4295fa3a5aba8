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

func TestUnknownNames(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	_, err := c.Incr(t.Context(), 1, "share")
	if e, ok := errors.AsType[*ColumnError](err); !ok || e.Counter != "weibo" || e.Column != "share" || ClassOf(err) != Permanent {
		t.Errorf("a column that is not there: %v", err)
	}
	// A column that was added since is found, once a second has passed since the schema was read.
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

// TestExact lets fifty goroutines increment while replies are lost, connections cut, errors answered and the server
// stopped: acknowledged increments are counted once, refused ones not at all.
func TestExact(t *testing.T) {
	rng := random(t)
	f := newFake(t)
	c := newTest(t, f, Options{RetryBurst: 100_000, RetryFor: maxRetryFor})
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
	var why error // of a change in doubt
	var mu sync.Mutex
	var wg, stopper sync.WaitGroup
	done := make(chan struct{})
	stopper.Go(func() { // it counts changes and not seconds: a busy machine would make no change between two stops
		for stopped := 0; ; {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				if n := f.count(); n-stopped >= 120 {
					stopped = n
					f.stop()
					time.Sleep(time.Millisecond)
					f.start()
				}
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
					why = err
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
			t.Errorf("post %d: %d in doubt with a budget that suffices: %v", post, doubt[post], why)
		}
	}
}

// TestReplicas asks a go-redis cluster client that reads from replicas: a node that goes down is left, a node that
// comes back is used, and the caller sees no error while one of them answers.
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
