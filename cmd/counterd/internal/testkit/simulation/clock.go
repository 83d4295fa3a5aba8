package simulation

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/internal/testkit/setclock"
)

// clock is the wall clock of a machine. It runs fast or slow and is set, ahead and back; its monotonic reading goes on as the
// simulated time does, and begins anew at no boot. Servers use it for times of the log and of snapshots, and for how
// long producers are idle.
type clock struct {
	began time.Time
	fast  int64        // millionths by which it runs fast
	ahead atomic.Int64 // nanoseconds by which it was set
}

func newClock(fast int) *clock { return &clock{began: time.Now(), fast: int64(fast)} }

// Now is time.Now of the machine.
func (c *clock) Now() time.Time {
	since := time.Since(c.began)
	wall := c.began.Add(since + since/1_000_000*time.Duration(c.fast) + time.Duration(c.ahead.Load()))
	return setclock.Reading(wall, time.Second+since)
}

// set sets the clock by some time.
func (c *clock) set(by time.Duration) { c.ahead.Add(int64(by)) }

// clocks gives the machines clocks that drift and are set.
func (c *Config) clocks(d *Dice) {
	c.Drift = Pick(d, []int{0, 100, 20_000})
	c.Weights[clockSet] = 1 + d.N(6)
}

// setClock sets a machine's clock ahead or back: by a correction, by a time zone, or by an empty battery.
func (n *nemesis) setClock(d *Dice, m *Machine) {
	by := Pick(d, []time.Duration{time.Second, 70 * time.Second, time.Hour, 25 * time.Hour, 300 * 24 * time.Hour})
	if d.Chance(500) {
		by = -by
	}
	n.say("the clock of %s is set by %s", m.name, by)
	n.run.Story.meet("simulation: a clock was set")
	m.clock.set(by)
}
