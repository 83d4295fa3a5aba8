// Package setclock makes readings of a clock that was set, for tests. Only tests import it.
package setclock

import (
	"time"
	"unsafe"
)

// secondsAt is the place of the wall seconds in the first word of a time that has a monotonic reading.
const secondsAt = 30

// By returns a reading of a clock that was set: its wall time differs by some seconds from that of t, and its monotonic reading
// does not. REQUIRES: t has a monotonic reading.
func By(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << secondsAt
	return t
}

// Reading returns a reading of a clock with a wall time and a monotonic reading that need not agree. In a bubble of testing/synctest,
// where time.Now has no monotonic reading, a simulated machine's clock has one by this. REQUIRES: wall is from 1885 to 2157, and
// monotonic is positive.
func Reading(wall time.Time, monotonic time.Duration) time.Time {
	wall = wall.Round(0)
	t := wall
	words := (*[2]uint64)(unsafe.Pointer(&t))
	words[0] = 1<<63 | uint64(wall.Unix()+secondsBefore)<<secondsAt | uint64(wall.Nanosecond())
	words[1] = uint64(monotonic)
	return t
}

// secondsBefore is how many seconds 1970 is behind 1885, from where a time with a monotonic reading counts.
const secondsBefore = (85*365 + 20) * 24 * 60 * 60
