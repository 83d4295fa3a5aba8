package durable

import (
	"runtime"
	"time"
)

// processorUse tells how much of its processors the process takes, so that work which can wait gives way to users. Its zero
// value is ready. NOT safe for concurrent use.
type processorUse struct {
	at   time.Time     // of the last look
	used time.Duration // processor time of the process until then
}

// look returns the share of the processors that the process took since the last look, without its own time, which the caller
// worked meanwhile: 0 to 1, and 0 at the first look. It takes 1 us.
func (u *processorUse) look(own time.Duration) float64 {
	at, used := time.Now(), processTime()
	was := *u
	u.at, u.used = at, used
	if was.at.IsZero() {
		return 0
	}
	return shareOf(used-was.used-own, at.Sub(was.at), runtime.GOMAXPROCS(0))
}

// shareOf is the share that a time is of the time of so many processors.
func shareOf(used, elapsed time.Duration, processors int) float64 {
	if elapsed <= 0 {
		return 0
	}
	return min(max(used.Seconds()/(elapsed.Seconds()*float64(processors)), 0), 1)
}
