package window

import (
	"sync/atomic"

	"github.com/counterd/counterd/schema"
)

// Clock is the time of the log, by which windows are counted: that of its last tick. So all nodes that have the same log have the same time,
// and read the same values. It never goes back: a clock of the machine that is set back leaves it where it is until the clock has
// come there again. 0: there was no tick.
type Clock struct{ seconds atomic.Int64 }

// Seconds is the time, in seconds since 1970.
func (c *Clock) Seconds() int64 { return c.seconds.Load() }

// Advance moves the time on.
func (c *Clock) Advance(to uint64) { c.seconds.Store(max(c.seconds.Load(), int64(to))) }

// Load takes over the time of a manifest; 0: there was none.
func (c *Clock) Load(seconds uint64) { c.seconds.Store(int64(seconds)) }

// FarAhead is how many seconds a clock may be ahead of the time of the log, and is believed at once.
const FarAhead = 24 * 60 * 60

// tickWithin is how many seconds there are between ticks at most: long buckets must not make a clock that is right look far ahead.
const tickWithin = 60 * 60

// Next is when the next tick is due, in seconds since 1970: when a derived column of a schema reads other values, or an hour after the one before. ok is
// false if there is no such column.
func (c *Clock) Next(sch *schema.Schema) (seconds int64, ok bool) {
	now := c.Seconds()
	for _, def := range sch.Counters() {
		for i := range def.Derived {
			step := def.Derived[i].Step()
			if next := (now/step + 1) * step; !ok || next < seconds {
				seconds, ok = next, true
			}
		}
	}
	if ok && now > 0 {
		seconds = min(seconds, now+tickWithin)
	}
	return seconds, ok
}
