package persist

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/counterd/counterd/persist/format"
)

// quorum is what others than this node have to do before a change is acknowledged: each node that must have the log up
// to the change has said so. Who they are the owner knows, and tells how far all of them are (Confirm). Commit and Show
// wait for that behind what they wait for here; readers of the log do not, or nobody would ever get what is to be
// confirmed.
//
// Invariant: waiting is in rising order of pos, and nothing in it may be acknowledged, or is in doubt.
//
// qmu is a leaf, but for what Waiter.Resume takes.
type quorum struct {
	qmu      sync.Mutex
	hopeless error // why who waits is not to wait any longer; nil: there is hope
	ended    bool  // hopeless stays
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

// Quorum makes acknowledgements wait for Confirm from now on, which nothing is confirmed of yet, or no more.
func (l *Log) Quorum(on bool) {
	if on {
		l.Confirm(0)
	} else {
		l.Confirm(everywhere)
	}
}

// HasQuorum tells whether acknowledgements wait for Confirm. One atomic load.
func (l *Log) HasQuorum() bool { return l.confirmed.Load() != everywhere }

// Confirmed is the offset below which everybody has the log who must; the largest number where nobody must.
func (l *Log) Confirmed() uint64 { return l.confirmed.Load() }

// Confirm tells that everybody who must have the log has it up to pos. It may fall, as more must have it: what is
// acknowledged behind its return is with them too.
func (l *Log) Confirm(pos uint64) {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	l.confirmed.Store(pos)
	n := 0
	for n < len(l.waiting) && l.waiting[n].pos <= pos {
		n++
	}
	l.resume(n)
}

// Doubt has all who wait for Confirm, and who would, answered by an *UnconfirmedError of err, until it is called with
// nil. What is confirmed already is acknowledged as ever.
func (l *Log) Doubt(err error) {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	if l.ended {
		return
	}
	if l.hopeless = err; err != nil {
		l.resume(len(l.waiting))
	}
}

// endQuorum is Doubt for good, by ErrClosed, or by what it was called with last: who was told to go on and did not come
// to it yet hears that reason.
func (l *Log) endQuorum() {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	if l.ended = true; l.hopeless == nil {
		l.hopeless = format.ErrClosed
	}
	l.resume(len(l.waiting))
}

// resume tells the first n who wait. REQUIRES: qmu.
func (l *Log) resume(n int) {
	if n == 0 {
		return
	}
	for i := range l.waiting[:n] {
		l.waiting[i].who.Resume()
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
}

// Await has w told when the log is confirmed up to pos, or that is in doubt: then it should ask again. false: it is so
// already, and w is not told.
func (l *Log) Await(pos uint64, w Waiter) bool {
	if l.confirmed.Load() >= pos {
		return false
	}
	l.qmu.Lock()
	defer l.qmu.Unlock()
	if l.confirmed.Load() >= pos || l.hopeless != nil {
		return false
	}
	i := len(l.waiting)
	for i > 0 && l.waiting[i-1].pos > pos { // what comes later waits for more, nearly always
		i--
	}
	l.waiting = slices.Insert(l.waiting, i, waiting{pos, w})
	return true
}

// Awaited tells whether somebody waits for Confirm.
func (l *Log) Awaited() bool {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	return len(l.waiting) > 0
}

// signal is a Waiter that is a goroutine.
type signal chan struct{}

func (s signal) Resume() { close(s) }

// confirm waits until pos is confirmed.
func (l *Log) confirm(pos uint64) error {
	for l.confirmed.Load() < pos {
		if s := make(signal); l.Await(pos, s) {
			<-s
			continue
		}
		if err := l.inDoubt(pos); err != nil {
			return err
		}
	}
	return nil
}

// CommitWithin is Commit for callers that wait no longer than ctx lasts. It returns the error of ctx if that ends while the
// bytes below pos are not confirmed: then they may be confirmed later.
func (l *Log) CommitWithin(ctx context.Context, pos uint64) error {
	if err := l.CommitHere(pos); err != nil {
		return err
	}
	for l.confirmed.Load() < pos {
		s := make(signal)
		if l.Await(pos, s) {
			select {
			case <-s:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := l.inDoubt(pos); err != nil {
			return err
		}
	}
	return nil
}

// inDoubt is why a change is not waited for any longer; nil: it is confirmed, or is to be waited for.
func (l *Log) inDoubt(pos uint64) error {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	if l.confirmed.Load() >= pos || l.hopeless == nil {
		return nil
	}
	return fmt.Errorf("log: %w", &UnconfirmedError{l.hopeless})
}
