// Scenario: rate, runs at a part of a server's highest rate, and clients that start on time.

package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/benchtest"
)

// TestRatePart drives two servers at a quarter of the second one's highest rate, and verifies the operations sent
// meanwhile too.
func TestRatePart(t *testing.T) {
	a, b := benchtest.Start(t, true), benchtest.Start(t, false)
	config := small(t, Target{Addr: a.Addr}, Target{Addr: b.Addr})
	config.RatePart, config.Workloads = 0.25, []string{"load", "incr", "timeline"}
	config.Duration = 400 * time.Millisecond // turns long enough that a starved machine answers something
	steps, last := 0, 0
	calibrated := map[string]bool{}
	config.Progress = func(step, of int, what string) {
		steps, last = steps+1, of
		if strings.Contains(what, "the most that "+b.Addr) {
			calibrated[what] = true
		}
	}
	result, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, result, config)
	if steps != last || len(calibrated) != 2 {
		t.Errorf("%d steps of %d, measured the most of B in %v, want one step for each workload but load", steps, last, calibrated)
	}
	for i, phase := range result.Phases {
		if (phase.Rate > 0) != (i > 0) {
			t.Errorf("%s: a rate of %g", phase.Workload, phase.Rate)
		}
	}
	if result.Settings.RatePart != 0.25 || result.Settings.Rate != 0 {
		t.Errorf("settings %+v", result.Settings)
	}
}

// TestRatePartOfNothing checks that a server that answers nothing has no half of it.
func TestRatePartOfNothing(t *testing.T) {
	s := benchtest.Start(t, true)
	config := small(t, Target{Addr: s.Addr})
	config.Workloads, config.RatePart, config.Verify = []string{"get"}, 0.5, false
	config.Duration = 1 // a turn has no time for anything
	if _, err := Run(context.Background(), config); err == nil || !strings.Contains(err.Error(), "answered nothing") {
		t.Errorf("%v, want an error that nothing was answered", err)
	}
}

func TestRateRefused(t *testing.T) {
	for _, config := range []Config{{Rate: -1}, {RatePart: -0.1}, {RatePart: 1.1}, {Rate: 5, RatePart: 0.5}, {Rate: maxRate * 2}} {
		full := small(t, Target{Addr: "127.0.0.1:1"})
		full.Rate, full.RatePart = config.Rate, config.RatePart
		if err := full.Validate(); err == nil {
			t.Errorf("rate %g, part %g: no error", config.Rate, config.RatePart)
		}
	}
}

// TestStaggered checks that after a pause the clients of an open run still start at different times: all at once they
// would measure the queue of their own making.
func TestStaggered(t *testing.T) {
	const interval = 400 * time.Millisecond
	now := clock()
	for i := range 4 {
		c := &client{due: now - 7*interval + time.Duration(i)*interval/4, ended: true}
		if err := c.sendDue(nil, interval, finishAt(now+time.Hour)); err != nil {
			t.Fatal(err)
		}
		want := now + time.Duration(i)*interval/4
		if off := (want - c.due) % interval; off != 0 {
			t.Errorf("client %d is due %s off its place in the interval", i, off)
		}
		if c.due < now-interval {
			t.Errorf("client %d is due %s ago, want less than an interval", i, now-c.due)
		}
	}
}
