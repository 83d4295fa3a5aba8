package counter

import "github.com/counterd/counterd/persist"

// Ack is what stands between operations and their replies: the log up to the changes that were made, and up to those
// that were seen, see Batch.Commit. The zero value has nothing pending, nor has one after Commit. An Ack is not safe
// for concurrent use.
type Ack struct {
	log  *persist.Log // nil: nothing is pending
	pos  uint64
	seen uint64
}

// Pending tells whether there is something to commit.
func (a *Ack) Pending() bool { return a.log != nil }

// Waits tells whether Commit waits for more than a write(): for a sync, or for a disk that fell behind.
func (a *Ack) Waits() bool { return a.log != nil && a.log.Waits(a.pos, a.seen) }

// Commit is Batch.Commit for what was deferred to a.
func (a *Ack) Commit() error {
	if a.log == nil {
		return nil
	}
	log, pos, seen := a.log, a.pos, a.seen
	*a = Ack{}
	err := log.Commit(pos)
	if err == nil {
		pos = seen
		err = log.Show(seen)
	}
	if err != nil {
		return &UncertainError{Offset: pos, Err: err}
	}
	return nil
}
