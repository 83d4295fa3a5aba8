// Package monotonic gives moments as numbers, for ages that are kept in atomic variables. A time.Time has a reading of the monotonic
// clock beside its wall time. Its UnixNano has the wall time alone: an age computed from it is wrong when somebody sets the clock, by
// as much as the clock was set. A replica that hangs would then count as heard of for hours.
package monotonic

import "time"

var start = time.Now()

// Moment is the time since the start of the process in nanoseconds. The zero value is no moment.
type Moment int64

// Now returns the moment of now. It is never 0. It reads the monotonic clock alone, where time.Now reads the wall clock, too.
func Now() Moment { return moment(time.Since(start)) }

// Of returns the moment of a reading of the clock, which has a monotonic reading. It is never 0.
func Of(t time.Time) Moment { return moment(t.Sub(start)) }

func moment(sinceStart time.Duration) Moment {
	if sinceStart >= 0 {
		sinceStart++
	}
	return Moment(sinceStart)
}

// Age returns how long ago the moment was.
func (m Moment) Age() time.Duration { return time.Duration(Now() - m) }
