package core

import "github.com/counterd/counterd/persist"

// Ack is what stands between operations and their replies: the log up to the changes that were made, and up to those
// that were seen, see Batch.Commit. The zero value has nothing pending, nor has one after Commit. An Ack is not safe
// for concurrent use.
type Ack struct {
	log  *persist.Log // nil: nothing is pending
	pos  uint64
	seen uint64
	here bool // nothing has to be elsewhere: the store was a replica
}

// Pending tells whether there is something to commit.
func (a *Ack) Pending() bool { return a.log != nil }

// Waits tells whether Commit waits for more than a write(): for a sync, for a disk that fell behind, or for others to
// have the log.
func (a *Ack) Waits() bool {
	return a.log != nil && (a.log.Waits(a.pos, a.seen) || !a.here && a.log.Quorum().Waits(a.pos, a.seen))
}

// WaitsHere is Waits as far as this node is concerned.
func (a *Ack) WaitsHere() bool { return a.log != nil && a.log.Waits(a.pos, a.seen) }

// Write does what Commit does on this node, and leaves the errors to Commit. Where the log does not wait (WaitsHere) it
// is one write, which may hang.
func (a *Ack) Write() {
	if a.log != nil && a.log.CommitHere(a.pos) == nil {
		_ = a.log.CommitReadHere(a.seen)
	}
}

// Await is Commit for a caller that does not wait: w is told when others have what they must have, or will not, and Commit is
// to be called then. false: Commit may be called now, and does not wait for others.
func (a *Ack) Await(w persist.Waiter) bool {
	if a.log == nil || a.here || !a.log.Quorum().Required() || a.log.Waits(a.pos, a.seen) {
		return false
	}
	if a.log.CommitHere(a.pos) != nil || a.log.CommitReadHere(a.seen) != nil { // Commit tells
		return false
	}
	return a.log.Quorum().Await(a.pos, a.seen, w)
}

// Commit is Batch.Commit for what was deferred to a.
func (a *Ack) Commit() error {
	if a.log == nil {
		return nil
	}
	log, pos, seen, here := a.log, a.pos, a.seen, a.here
	*a = Ack{}
	err := log.Commit(pos)
	if err == nil {
		pos = seen
		if here {
			err = log.CommitReadHere(seen)
		} else {
			err = log.CommitRead(seen)
		}
	}
	if err != nil {
		return &UncertainError{Offset: pos, Err: err}
	}
	return nil
}
