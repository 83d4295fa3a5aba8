package counter

import "github.com/counterd/counterd/persist"

// Ack is what stands between changes and their acknowledgement: their records in the log, see Batch.Commit. The zero value is settled, so is
// one after Commit. An Ack is not safe for concurrent use.
type Ack struct {
	log *persist.Log
	pos uint64
}

// Pending tells whether there is something to commit.
func (a *Ack) Pending() bool { return a.pos > 0 }

// Waits tells whether Commit waits for more than a write(): for a sync, or for a disk that fell behind.
func (a *Ack) Waits() bool { return a.pos > 0 && a.log.Waits(a.pos) }

// Commit is Batch.Commit for what was deferred to a.
func (a *Ack) Commit() error {
	if a.pos == 0 {
		return nil
	}
	pos := a.pos
	a.pos = 0
	if err := a.log.Commit(pos); err != nil {
		return &UncertainError{Offset: pos, Err: err}
	}
	return nil
}
