package monotonic

import (
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/setclock"
)

// TestClockSet: an age is the same whatever the wall clock was set to.
func TestClockSet(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		if got, want := Of(setclock.By(now, by)), Of(now); got != want {
			t.Errorf("the clock is set by %v: moment %d, want %d", by, got, want)
		}
	}
	if got := Of(now) - Of(now.Add(-time.Minute)); got != Moment(time.Minute) && got != Moment(time.Minute)+1 {
		t.Errorf("%d ns are between two moments, want a minute", got)
	}
	if Of(start) == 0 || Now() == 0 || Now().Age() < 0 {
		t.Error("the first moment is none, or now is later than now")
	}
}
