package stats

import (
	"sync"
	"time"
)

// Every lets one event through in a stretch of time and counts the others, so that anybody who can reach a port cannot
// fill the log. The zero Every lets one through each LogEvery. It may be used by several goroutines at once.
type Every struct {
	mu     sync.Mutex
	last   time.Time // when one was let through
	others int
}

// LogEvery is the time between two lines of the log about the same kind of event that clients can cause.
const LogEvery = 10 * time.Second

// Pass tells whether the event of now goes through, and how many did not since the last event that did.
func (e *Every) Pass(now time.Time) (others int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.last.IsZero() && now.Sub(e.last) < LogEvery {
		e.others++
		return 0, false
	}
	others, e.others, e.last = e.others, 0, now
	return others, true
}
