package persist

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/persist/format"
)

// Quorum knows which part of the log all other nodes have that must have it before a change is acknowledged. The owner of
// the log knows these nodes and tells how far all of them are (Confirm). Log.Commit and Log.Show wait for Quorum after they
// have waited for this node's disk. Readers of the log do not wait for it: otherwise no node would get what it has to
// confirm.
//
// Quorum has a lock of its own and reaches nothing else of the log.
//
// Invariant: waiting is in rising order of pos. Nothing in it may be acknowledged yet, and nothing is in doubt.
//
// mu is a leaf, but for what Waiter.Resume takes.
type Quorum struct {
	confirmed atomic.Uint64 // all other nodes that must have the log have it below this offset

	mu       sync.Mutex // guards the rest
	hopeless error      // why who waits is not to wait any longer; nil: there is hope
	ended    bool       // hopeless stays
	waiting  []waiting
}

// waiting is who wants to know of an offset.
type waiting struct {
	pos uint64
	who Waiter
}

// Waiter is told that what it waited for has come, or never will. Resume must not wait, nor call the log.
type Waiter interface{ Resume() }

// everywhere is the confirmed offset of a log that needs nobody.
const everywhere = math.MaxUint64

// UnconfirmedError says that a change was made and is not known to be on all nodes that must have it.
type UnconfirmedError struct{ Err error }

// Error gives the reason.
func (e *UnconfirmedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnconfirmedError) Unwrap() error { return e.Err }

// Require makes acknowledgements wait for Confirm from now on; nothing is confirmed yet. Require(false) ends that.
func (q *Quorum) Require(on bool) {
	if on {
		q.Confirm(0)
	} else {
		q.Confirm(everywhere)
	}
}

// Required tells whether acknowledgements wait for Confirm. One atomic load.
func (q *Quorum) Required() bool { return q.confirmed.Load() != everywhere }

// Confirmed is the offset below which everybody has the log who must; the largest number where nobody must.
func (q *Quorum) Confirmed() uint64 { return q.confirmed.Load() }

// Confirm tells that everybody who must have the log has it up to pos. It may fall, as more must have it: what is
// acknowledged behind its return is with them too.
func (q *Quorum) Confirm(pos uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.confirmed.Store(pos)
	n := 0
	for n < len(q.waiting) && q.waiting[n].pos <= pos {
		n++
	}
	q.resume(n)
}

// Doubt has all who wait for Confirm, and who would, answered by an *UnconfirmedError of err, until it is called with
// nil. What is confirmed already is acknowledged as ever.
func (q *Quorum) Doubt(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if q.hopeless = err; err != nil {
		q.resume(len(q.waiting))
	}
}

// end is Doubt for good, by ErrClosed, or by what it was called with last: who was told to go on and did not come
// to it yet hears that reason.
func (q *Quorum) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended = true; q.hopeless == nil {
		q.hopeless = format.ErrClosed
	}
	q.resume(len(q.waiting))
}

// resume tells the first n who wait. REQUIRES: mu.
func (q *Quorum) resume(n int) {
	if n == 0 {
		return
	}
	for i := range q.waiting[:n] {
		q.waiting[i].who.Resume()
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// Await has w told when the log is confirmed up to pos, or that is in doubt: then it should ask again. false: it is so
// already, and w is not told.
func (q *Quorum) Await(pos uint64, w Waiter) bool {
	if q.confirmed.Load() >= pos {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.confirmed.Load() >= pos || q.hopeless != nil {
		return false
	}
	i := len(q.waiting)
	for i > 0 && q.waiting[i-1].pos > pos { // what comes later waits for more, nearly always
		i--
	}
	q.waiting = slices.Insert(q.waiting, i, waiting{pos, w})
	return true
}

// Awaited tells whether somebody waits for Confirm.
func (q *Quorum) Awaited() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}

// signal is a Waiter that is a goroutine.
type signal chan struct{}

func (s signal) Resume() { close(s) }

// wait returns when pos is confirmed, or is in doubt.
func (q *Quorum) wait(pos uint64) error {
	for q.confirmed.Load() < pos {
		if s := make(signal); q.Await(pos, s) {
			<-s
			continue
		}
		if err := q.inDoubt(pos); err != nil {
			return err
		}
	}
	return nil
}

// waitWithin is wait for callers that wait no longer than ctx lasts.
func (q *Quorum) waitWithin(ctx context.Context, pos uint64) error {
	for q.confirmed.Load() < pos {
		s := make(signal)
		if q.Await(pos, s) {
			select {
			case <-s:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := q.inDoubt(pos); err != nil {
			return err
		}
	}
	return nil
}

// inDoubt is why a change is not waited for any longer; nil: it is confirmed, or is to be waited for.
func (q *Quorum) inDoubt(pos uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.confirmed.Load() >= pos || q.hopeless == nil {
		return nil
	}
	return fmt.Errorf("log: %w", &UnconfirmedError{q.hopeless})
}
