package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist"
)

// sight is how far the log must be for what a batch has looked at to be told: another's change may be seen before its
// record is written, and must not be told before.
type sight struct {
	data    *Data
	seen    uint64 // log offset behind what was looked at
	failing bool   // the log is Doubtful: what is not safe is told apart from what is; asked once a Run
	here    bool   // the store was a replica all the time: what it has may be told, whoever else has it
}

// startReading begins to look. REQUIRES: Data.Gate held.
func (v *sight) startReading() {
	v.here = v.here && v.data.Replica.Load()
	v.noteSeen(v.data.Altered)
	if v.data.Config.Elected {
		v.noteSeen(v.data.Replayed) // others may lack it, and a block does not know of it
	}
}

// seenIsSafe tells whether what was looked at may be told now.
func (v *sight) seenIsSafe(log *persist.Log) bool { return v.safe(log) >= v.seen }

// safe is the log offset below which everything may be told.
func (v *sight) safe(log *persist.Log) uint64 {
	if v.here {
		return log.Visible()
	}
	return min(log.Visible(), log.Quorum().Confirmed())
}

// noteSeen remembers that what the log has below pos is in the batch's results. A block knows the record of its last change
// only, so a reader waits for that, though it read another item.
func (v *sight) noteSeen(pos uint64) { v.seen = max(v.seen, pos) }

// noteSeenSafe is show for what op has read in blk, while the disk takes nothing. The block may have changes that are not
// safe: those of other items do not matter. An item that has some itself is waited for while there is hope, else it
// cannot be told.
func (v *sight) noteSeenSafe(blk *block.Block, op *Op) {
	if err := v.noteItem(blk, op.Counter.ID, op.Mid); err != nil {
		op.Err = err
	}
}

// noteItem is noteSeenSafe for an item of a counter, or of the space of a derived column.
func (v *sight) noteItem(blk *block.Block, counter uint32, mid uint64) error {
	log, below := v.data.Log, max(blk.Logged, v.data.Replayed)
	safe := v.safe(log)
	if !log.Doubts(counter, mid, safe, below) {
		v.noteSeen(min(safe, below))
		return nil
	}
	if err := log.Ready(); log.Failed() && err != nil {
		return &UncertainError{Offset: below, Err: err}
	}
	v.noteSeen(below)
	return nil
}

// noteSeenLogged is show for what the table of producers tells, whose records end at pos; 0: they were replayed. While the
// disk takes nothing, what is not safe cannot be told.
func (v *sight) noteSeenLogged(pos uint64) error {
	if v.failing {
		log := v.data.Log
		if pos = max(pos, v.data.Replayed); pos > v.safe(log) {
			if err := log.Ready(); log.Failed() && err != nil {
				return &UncertainError{Offset: pos, Err: err}
			}
		}
	}
	v.noteSeen(pos)
	return nil
}

// noteMade is noteSeenLogged for an answer of b that acknowledges an earlier change, whose record ends at pos; 0: it was replayed. The answer waits
// as the change itself does. Readers wait for less: they are shown changes that a single node confirms where two must have them, and, unless each
// change is synced, changes that the disk does not take. While the disk takes nothing, this answer is in doubt, and the reads of its batch are not.
func noteMade(b *Batch, pos uint64) error {
	pos = max(pos, b.data.Replayed)
	if log := b.data.Log; log != nil && log.Failed() && pos > b.seen.safe(log) {
		if err := log.Ready(); err != nil {
			return &UncertainError{Offset: pos, Err: err}
		}
	}
	b.pos = max(b.pos, pos)
	return b.seen.noteSeenLogged(pos)
}

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

// Await prepares Commit for a caller that must not wait. It tells w when Commit no longer waits for other nodes: they have acknowledged the log, or will not.
// false: Commit may be called now, and does not wait for other nodes.
func (a *Ack) Await(w persist.Waiter) bool {
	if a.log == nil || a.here || !a.log.Quorum().Required() || a.log.Waits(a.pos, a.seen) {
		return false
	}
	if a.log.CommitHere(a.pos) != nil || a.log.CommitReadHere(a.seen) != nil { // Commit tells
		return false
	}
	return a.log.Quorum().Await(a.pos, a.seen, w)
}

// Commit does what Batch.Commit would have done with the changes that were deferred to a.
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
