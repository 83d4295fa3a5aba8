package setclock

import (
	"testing"
	"time"
)

// TestBy: only the wall time is another one.
func TestBy(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		set := By(now, by)
		if got := set.Round(0).Sub(now.Round(0)); got != by {
			t.Errorf("the wall time differs by %v, want %v", got, by)
		}
		if got := set.Sub(now); got != 0 {
			t.Errorf("the monotonic reading differs by %v", got)
		}
	}
}

// TestReading: wall time and monotonic reading are as they were given.
func TestReading(t *testing.T) {
	for _, wall := range []time.Time{time.Date(2026, 11, 23, 10, 0, 0, 123456789, time.UTC), time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		a, b := Reading(wall, time.Second), Reading(wall.Add(time.Hour), 3*time.Second)
		if !a.Equal(wall) || a.UnixNano() != wall.UnixNano() || a.Nanosecond() != wall.Nanosecond() {
			t.Errorf("the wall time is %v, want %v", a, wall)
		}
		if got := b.Sub(a); got != 2*time.Second {
			t.Errorf("%v are between two readings, want 2s", got)
		}
		if got := b.Round(0).Sub(a.Round(0)); got != time.Hour {
			t.Errorf("%v of wall time are between two readings, want 1h", got)
		}
	}
}
