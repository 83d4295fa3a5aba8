package aging

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// look looks until nothing is due, and waits.
func (k *Windows) lookAll() {
	k.Look()
	if done := k.underway(); done != nil {
		<-done
	}
}

// TestWindowsTick: a bucket that has ended is logged once, and posts without additions in the window take no room. A clock that is set back changes
// nothing. A clock far ahead is believed when it has stayed there for ten minutes.
func TestWindowsTick(t *testing.T) {
	s, _ := newServer(t, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v1h window=1h/5m of=v", counter.Options{})
	k := NewWindows(s, slog.New(slog.DiscardHandler))
	defer k.Close(t.Context())
	def := s.store.Schema().Counter("a")
	sum := func() uint64 {
		t.Helper()
		_, lo, _, err := s.store.Aggregate(counter.Query{Counter: def, To: 100}, counter.Sum, 1)
		if err != nil {
			t.Fatal(err)
		}
		return lo
	}
	at := func(d time.Duration, wantTime time.Time, want uint64) {
		t.Helper()
		s.now = s.now.Add(d)
		k.lookAll()
		if got := time.Unix(s.store.Windows().Time(), 0); !got.Equal(wantTime) {
			t.Errorf("the log's time is %v, want %v", got.UTC(), wantTime.UTC())
		}
		if got := sum(); got != want {
			t.Errorf("the windows have %d additions, want %d", got, want)
		}
	}
	at(0, s.now, 0)
	begin := s.now
	if _, err := s.store.Incr("7.v", 3); err != nil {
		t.Fatal(err)
	}
	at(time.Second, begin, 3)
	at(-time.Hour, begin, 3)
	at(time.Hour+5*time.Minute, begin.Add(5*time.Minute+time.Second), 3)
	s.held = true
	at(10*time.Minute, begin.Add(5*time.Minute+time.Second), 3)
	s.held = false
	at(0, s.now, 3)
	logged := s.store.Replication().Position()
	at(time.Second, s.now, 3)
	if now := s.store.Replication().Position(); now != logged {
		t.Errorf("the log grows by %d bytes without a bucket that ended", now-logged)
	}
	last := s.now.Add(-time.Second)
	at(48*time.Hour, last, 3)
	at(-48*time.Hour, last, 3)
	at(48*time.Hour, last, 3)
	at(9*time.Minute, last, 3)
	at(time.Minute, s.now.Add(time.Minute), 0)
}

// TestWindowsLongBuckets: a bucket of days ends within a second too, as the time of the log moves on in between. It did not: ticks were more than a
// day apart, so that each waited for ten minutes as if the clock had jumped.
func TestWindowsLongBuckets(t *testing.T) {
	s, _ := newServer(t, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v60d window=60d/2d of=v", counter.Options{})
	k := NewWindows(s, slog.New(slog.DiscardHandler))
	defer k.Close(t.Context())
	for range 5 * 24 {
		s.now = s.now.Add(time.Hour + time.Second)
		k.lookAll()
		if got := time.Unix(s.store.Windows().Time(), 0); !got.Equal(s.now) {
			t.Fatalf("the log's time is %v, want %v", got.UTC(), s.now.UTC())
		}
	}
}

// TestWindowsAlterAhead: while the clock is far ahead, a change of the schema does not move the time of the log. It did, and emptied all windows. The
// first derived column has the clock's time, as nothing ticked before.
func TestWindowsAlterAhead(t *testing.T) {
	s, _ := newServer(t, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v1h window=1h/5m of=v", counter.Options{})
	k := NewWindows(s, slog.New(slog.DiscardHandler))
	defer k.Close(t.Context())
	k.lookAll()
	begin := s.now
	same := func(want time.Time) {
		t.Helper()
		if got := time.Unix(s.store.Windows().Time(), 0); !got.Equal(want) {
			t.Errorf("the log's time is %v, want %v", got.UTC(), want.UTC())
		}
	}
	same(begin)
	s.now = begin.Add(48 * time.Hour)
	k.lookAll()
	s.alter(t, "add column a w hint=8 max=32 suffix=w\nadd column a w1h window=1h/5m of=w")
	same(begin)
	s.alter(t, "drop column a v1h\ndrop column a w1h")
	same(begin)
	s.alter(t, "add column a w1h window=1h/5m of=w")
	same(s.now)
}

// TestWindowsFailedTick: a tick that fails is tried again when a second is over. It waited for a minute, in which no bucket of any window ended.
func TestWindowsFailedTick(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewSim())
	s := &server{now: time.Unix(1_700_000_000, 0)}
	s.open(t, disk, counter.Options{})
	defer s.store.Close()
	s.alter(t, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v10s window=10s/1s of=v")
	var lines strings.Builder
	k := NewWindows(s, slog.New(slog.NewTextHandler(&lines, nil)))
	defer k.Close(t.Context())
	second := func() {
		s.now = s.now.Add(time.Second)
		k.lookAll()
	}
	for range 3 {
		second()
		disk.Inject(vfs.Rule{Ops: vfs.OpWrite | vfs.OpSync, Every: 1, Err: syscall.EIO})
		second()
		disk.Clear()
		for n := 0; takesChanges(s.store) != nil; n++ { // until the log is well again, by the clock of the store
			if n == 1000 {
				t.Fatal("the log stays out of service")
			}
			s.now = s.now.Add(10 * time.Millisecond)
			s.store.Tick()
		}
		second()
		if got := time.Unix(s.store.Windows().Time(), 0); got.Unix() != s.now.Unix() {
			t.Fatalf("a second after the failure the log's time is %v, want %v", got.UTC(), s.now.UTC())
		}
	}
	if disk.Fired() == 0 || strings.Count(lines.String(), "cannot go on") != 1 {
		t.Errorf("%d calls failed; the log has the lines %q, want one in a minute", disk.Fired(), lines.String())
	}
}
