package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: work of the background takes half of the time, but for a wait for the disk, and all of it in a hurry.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hurry := false
		p := Pace{Hurry: func() bool { return hurry }}
		for _, c := range []struct {
			work, want time.Duration
			hurry      bool
		}{
			{0, 0, false}, // the first call begins
			{turn / 2, 0, false},
			{turn / 2, turn, false}, // a turn is over
			{turn / 2, 0, false},
			{time.Millisecond, time.Millisecond + turn/2, false},
			{time.Second, longest, false},
			{time.Second, 0, true},
			{turn / 2, 0, false},
		} {
			time.Sleep(c.work)
			hurry = c.hurry
			began := time.Now()
			p.Rest()
			if got := time.Since(began); got != c.want {
				t.Errorf("after %v of work, hurry %v: rested %v, want %v", c.work, c.hurry, got, c.want)
			}
		}
	})
}
