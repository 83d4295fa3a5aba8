package repl

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBudget: work takes its share of the time. It is slept for once, and the next turn owes nothing for the turn before.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{ctx: t.Context(), share: func() float64 { return 0.01 }}
		for _, c := range []struct{ work, least, want time.Duration }{
			{time.Millisecond, 0, 99 * (time.Millisecond + turnCost)},
			{0, 0, 99 * turnCost},
			{0, time.Second, time.Second},
			{time.Hour, 0, maxBudgetSleep},
		} {
			b.start()
			time.Sleep(c.work)
			b.stop()
			began := time.Now()
			b.settle(c.least)
			if got := time.Since(began); got.Round(time.Microsecond) != c.want {
				t.Errorf("%v of work: slept %v, want %v", c.work, got, c.want)
			}
		}
	})
}
