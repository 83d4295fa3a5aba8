package bench

import (
	"sync/atomic"
	"time"
)

// finish is when clients end, on the generator's clock. It may be moved while they run: a window goes on until what it
// was made for is over. Any number of goroutines may use one.
type finish struct{ at atomic.Int64 }

// finishAt returns a finish at that time.
func finishAt(at time.Duration) *finish {
	f := &finish{}
	f.set(at)
	return f
}

func (f *finish) set(at time.Duration) { f.at.Store(int64(at)) }

// before tells whether a time is before the end.
func (f *finish) before(now time.Duration) bool { return int64(now) < f.at.Load() }
