package aging

import (
	"context"
	"sync"
	"time"
)

// task is work that begins in the background now and then, and of which at most one run is under way. All methods are safe for concurrent use.
type task struct {
	pause time.Duration // how long it waits after a failure: a disk that is full, or a damaged file

	lock  sync.Mutex    // guards the rest; it is not held while the work runs
	done  chan struct{} // closed when the run under way ends; nil: none is
	again time.Time     // after a failure: not before
	ended bool
}

// ready tells whether a run may begin at a moment. A clock that was set back does not make a failure last longer.
func (t *task) ready(now time.Time) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.done == nil && !t.ended && !(now.Before(t.again) && t.again.Sub(now) <= t.pause)
}

// start begins a run, unless one is under way or the task was closed. now is when; an error of the work delays the next run.
func (t *task) start(now time.Time, work func() error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.done != nil || t.ended {
		return
	}
	done := make(chan struct{})
	t.done = done
	go func() {
		err := work()
		t.lock.Lock()
		defer t.lock.Unlock()
		if t.done = nil; err != nil {
			t.again = now.Add(t.pause)
		}
		close(done)
	}()
}

// underway is closed when the run under way ends; nil: none is.
func (t *task) underway() <-chan struct{} {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.done
}

// Close lets no further run begin, and waits for the run under way until ctx ends, as a disk that hangs holds a run up. The run then ends
// when the store is closed.
func (t *task) Close(ctx context.Context) {
	t.lock.Lock()
	t.ended = true
	done := t.done
	t.lock.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
