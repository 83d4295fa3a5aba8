package persist

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/vfs"
)

// TestHurry: bytes that somebody waits for are durable within milliseconds, long before the sync of each SyncEvery; many that wait share
// syncs, and there is at most one in hurryEvery. Without anybody who waits there is none.
func TestHurry(t *testing.T) { synctest.Test(t, testHurry) }

func testHurry(t *testing.T) {
	l, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: "d", Create: true, SyncEvery: time.Hour}, 0, nil)
	must(t, err)
	defer func() { must(t, l.Close()) }()
	write := func() uint64 {
		pos, err := l.Append([]byte("x"))
		must(t, err)
		must(t, l.Commit(pos))
		return pos
	}
	write()
	time.Sleep(time.Minute)
	first := l.Stats().Syncs
	write()
	time.Sleep(time.Second)
	if n := l.Stats().Syncs; n > first {
		t.Fatalf("%d syncs, and nobody waits", n-first)
	}
	began := time.Now()
	const waiters, rounds = 8, 40
	done := make(chan error)
	for range waiters {
		go func() {
			var err error
			for range rounds {
				if err == nil {
					err = HurryDurable(t.Context(), l, l.Durable())
				}
			}
			done <- err
		}()
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for range 10 * rounds {
			write()
			time.Sleep(time.Millisecond)
		}
	}()
	for range waiters {
		must(t, <-done)
	}
	took := time.Since(began)
	if n := l.Stats().Syncs - first; n < rounds || took > 2*rounds*hurryEvery || time.Duration(n-1)*hurryEvery > took {
		t.Errorf("%d syncs in %v for %d clients that waited %d times", n, took, waiters, rounds)
	}
	<-stop
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := HurryDurable(ctx, l, write()); err != context.Canceled {
		t.Errorf("nothing is written: got %v", err)
	}
	l.SetPolicy(SyncAlways)
	if pos := write(); l.Durable() < pos {
		t.Error("always: a commit is not durable")
	}
	must(t, HurryDurable(t.Context(), l, l.Durable()-1))
}

// TestHurryPolicy: a caller that left the sync to the commits of SyncAlways has it when these no longer sync.
func TestHurryPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: "d", Create: true, SyncEvery: time.Hour, Policy: SyncNo}, 0, nil)
		must(t, err)
		defer func() { must(t, l.Close()) }()
		pos, err := l.Append([]byte("x"))
		must(t, err)
		must(t, l.Commit(pos))
		l.SetPolicy(SyncAlways)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error)
		go func() { done <- HurryDurable(ctx, l, pos-1) }()
		synctest.Wait()
		l.SetPolicy(SyncNo)
		if err := <-done; err != nil || l.Durable() < pos {
			t.Errorf("got %v, and %d bytes are durable, want %d", err, l.Durable(), pos)
		}
	})
}

// TestHurryNow: a sync that all clients may wait for begins right behind the last one, where others wait for a pause.
func TestHurryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: "d", Create: true, SyncEvery: time.Hour, Policy: SyncNo}, 0, nil)
		must(t, err)
		defer func() { must(t, l.Close()) }()
		for i, c := range []struct {
			hurry func(*Log, uint64)
			want  bool
		}{{Hurry, true}, {Hurry, false}, {HurryNow, true}, {HurryNow, true}} {
			pos, err := l.Append([]byte("x"))
			must(t, err)
			must(t, l.Commit(pos))
			c.hurry(l, pos-1)
			synctest.Wait()
			if got := l.Durable() >= pos; got != c.want {
				t.Errorf("call %d: durable at once %t, want %t", i, got, c.want)
			}
		}
	})
}

// TestHurrySlow: a slow disk is asked for a sync half of the time at most, once for all that wait, and nobody is woken up before a sync may begin.
func TestHurrySlow(t *testing.T) {
	var h hurry
	h.init()
	now := time.Unix(1000, 0)
	if h.take(now, 0) {
		t.Error("nobody waits")
	}
	for last, want := range map[time.Duration]time.Duration{0: hurryEvery, 100 * time.Millisecond: 200 * time.Millisecond} {
		if !h.ask(now) || h.ask(now) {
			t.Error("two ask for the first sync: the background is to be woken up once")
		}
		if !h.take(now, last) || h.take(now, last) {
			t.Error("somebody waits for one sync")
		}
		if got := time.Duration(h.after.Load() - int64(monotonic.Of(now))); got != want {
			t.Errorf("behind a sync of %s the next one begins after %s, want %s", last, got, want)
		}
		if h.ask(now) || h.take(now, last) {
			t.Error("a sync begins right behind the last one")
		}
		if !h.timer.Stop() {
			t.Error("nothing tells the background when the sync may begin")
		}
		h.wanted.Store(false)
		now = now.Add(want)
	}
}

// TestHurryClockSet: a clock that is set back by an hour does not have the next hurried sync wait for that hour.
func TestHurryClockSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		var h hurry
		h.init()
		now := time.Now()
		if !h.ask(now) || !h.take(now, time.Millisecond) {
			t.Fatalf("clock set by %v: the first sync has to wait", by)
		}
		soon := h.ask(setclock.By(now.Add(hurryEvery/2), by))
		h.timer.Stop()
		h.wanted.Store(false)
		if soon || !h.ask(setclock.By(now.Add(hurryEvery), by)) {
			t.Errorf("clock set by %v: before its time %v, want false; at its time it has to wait", by, soon)
		}
	}
}
