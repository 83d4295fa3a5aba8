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
// the log knows these nodes and tells how far all of them are (Confirm). Log.Commit and Log.CommitRead wait for Quorum after they
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
	ceiling   atomic.Uint64 // while there is doubt: no change behind it is acknowledged, whatever is confirmed

	mu       sync.Mutex // guards the rest
	hopeless error      // why callers do not wait any longer; nil: they wait
	ended    bool       // hopeless stays
	waiting  []waiting
}

// waiting is a Waiter and the offset that it waits for.
type waiting struct {
	pos uint64
	who Waiter
}

// Waiter is resumed when its offset is confirmed or in doubt. Resume must not wait, nor call the log.
type Waiter interface{ Resume() }

// everywhere is the confirmed offset of a log that no other node must have.
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

// Confirmed returns the offset below which all nodes that must have the log have it. If no node must have it, Confirmed
// returns the largest number.
func (q *Quorum) Confirmed() uint64 { return q.confirmed.Load() }

// acknowledged tells whether changes up to ack may be acknowledged, and changes up to shown be shown to readers.
func (q *Quorum) acknowledged(ack, shown uint64) bool {
	confirmed := q.confirmed.Load()
	return confirmed >= max(ack, shown) && q.ceiling.Load() >= ack
}

// Waits tells whether a caller that made changes up to ack, and saw changes up to shown, has to wait. Two atomic loads.
func (q *Quorum) Waits(ack, shown uint64) bool { return !q.acknowledged(ack, shown) }

// Confirm says that all nodes that must have the log have it up to pos. pos may be lower than before, when more nodes must
// have the log: changes that are acknowledged after Confirm has returned are on those nodes too.
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

// Doubt makes all callers that wait for Confirm, now or later, return an *UnconfirmedError of err, until Doubt is called
// with nil. Changes that are already confirmed are still acknowledged. Changes that are confirmed during the doubt are shown to readers, and not
// acknowledged: when a node stands for fewer copies than there must be, it confirms alone the changes that waited for the others.
func (q *Quorum) Doubt(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if q.hopeless = err; err == nil {
		q.ceiling.Store(everywhere)
		return
	}
	q.ceiling.Store(min(q.ceiling.Load(), q.confirmed.Load()))
	q.resume(len(q.waiting))
}

// endWaits is a Doubt that does not end. The error is the one of the last Doubt, so that a caller that was resumed and has
// not read the reason yet gets that reason, or else ErrClosed.
func (q *Quorum) endWaits() {
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

// Await resumes w when changes up to ack may be acknowledged and those up to shown be shown, or when that is in doubt; w should then read
// the state again. Await returns false, and does not resume w, if that is so already.
func (q *Quorum) Await(ack, shown uint64, w Waiter) bool {
	if q.acknowledged(ack, shown) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.acknowledged(ack, shown) || q.hopeless != nil {
		return false
	}
	pos := max(ack, shown) // without doubt there is no ceiling
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

// wait returns when changes up to ack may be acknowledged and those up to shown be shown, when that is in doubt, or when ctx ends, with its
// error.
func (q *Quorum) wait(ctx context.Context, ack, shown uint64) error {
	for !q.acknowledged(ack, shown) {
		s := make(signal)
		if q.Await(ack, shown, s) {
			select {
			case <-s:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := q.inDoubt(ack, shown); err != nil {
			return err
		}
	}
	return nil
}

// inDoubt is why a change is not waited for any longer; nil: it is confirmed, or is to be waited for.
func (q *Quorum) inDoubt(ack, shown uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.acknowledged(ack, shown) || q.hopeless == nil {
		return nil
	}
	return fmt.Errorf("log: %w", &UnconfirmedError{q.hopeless})
}
