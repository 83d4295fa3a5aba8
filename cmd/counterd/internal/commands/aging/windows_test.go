package aging

import (
	"log/slog"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
)

// look looks until nothing is due, and waits.
func (k *Windows) lookAll() {
	k.Look()
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.running {
		k.done.Wait()
	}
}

// TestWindowsTick: a bucket that has ended is logged once, and posts without additions in the window take no room. A clock that is set back changes
// nothing. A clock far ahead is believed when it has stayed there for ten minutes.
func TestWindowsTick(t *testing.T) {
	s, _ := newServer(t, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v1h window=1h/5m of=v", counter.Options{})
	k := NewWindows(s, slog.New(slog.DiscardHandler))
	defer k.Close()
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
