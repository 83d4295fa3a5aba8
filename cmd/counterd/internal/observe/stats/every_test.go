package stats

import (
	"testing"
	"time"
)

// TestEvery: one event in ten seconds goes through, and says how many did not.
func TestEvery(t *testing.T) {
	var e Every
	now := time.Now()
	for i, c := range []struct {
		after  time.Duration
		others int
		ok     bool
	}{{0, 0, true}, {time.Second, 0, false}, {LogEvery - 1, 0, false}, {LogEvery, 2, true}, {2*LogEvery - 1, 0, false}, {time.Hour, 1, true}, {2 * time.Hour, 0, true}} {
		if others, ok := e.Pass(now.Add(c.after)); others != c.others || ok != c.ok {
			t.Errorf("event %d: got %d, %v, want %d, %v", i, others, ok, c.others, c.ok)
		}
	}
}
