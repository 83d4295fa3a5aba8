package durable

import (
	"testing"
	"time"
)

func TestProcessorUse(t *testing.T) {
	var u processorUse
	if got := u.look(0); got != 0 {
		t.Errorf("the first look: %v, want 0", got)
	}
	if u.at.IsZero() {
		t.Error("a look does not note its time")
	}
	if got := u.look(time.Hour); got != 0 {
		t.Errorf("with more time of the caller than the process took: %v, want 0", got)
	}
	for _, c := range []struct {
		used, elapsed time.Duration
		processors    int
		want          float64
	}{
		{0, time.Second, 1, 0},
		{time.Second, 0, 1, 0},
		{-time.Second, time.Second, 1, 0},
		{time.Second / 2, time.Second, 1, 0.5},
		{time.Second, time.Second, 4, 0.25},
		{3 * time.Second, time.Second, 2, 1}, // a clock that was set
	} {
		if got := shareOf(c.used, c.elapsed, c.processors); got != c.want {
			t.Errorf("%v of %v with %d processors: %v, want %v", c.used, c.elapsed, c.processors, got, c.want)
		}
	}
}

// TestPackRest: compression works for a quarter of the time, and for a twentieth while the server is busy.
func TestPackRest(t *testing.T) {
	for use, want := range map[float64]time.Duration{0: 3 * packTurn, packBusy: 3 * packTurn, packBusy + 0.01: 19 * packTurn, 1: 19 * packTurn} {
		if got := packRest(packTurn, use); got != want {
			t.Errorf("the server takes %v of its processors: a rest of %v, want %v", use, got, want)
		}
	}
}
