package replica

import (
	"context"
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist"
)

// CommitShard returns nil when all nodes that must have the log have it up to an offset, and this store still leads in the
// epoch: whichever node leads next has it too. REQUIRES: the log below the offset was appended in this epoch or before it.
//
// The error is an *UncertainError of ErrDeposed if the store does not lead in the epoch any more, of the error of ctx if
// that ends first, or of the error given to Replication.Doubt. Then a later primary may have the changes below the offset or
// not, and the caller must act on neither.
func (r *Replication) CommitShard(ctx context.Context, epoch, pos uint64) error {
	if r.s.Log == nil {
		return core.ErrInMemory
	}
	err := r.s.Log.CommitWithin(ctx, pos)
	// Behind the wait: the offset may have been confirmed by another term, of other bytes.
	if !r.Leads(epoch) {
		err = &persist.UnconfirmedError{Err: ErrDeposed}
	} else if err != nil && err == ctx.Err() {
		err = &persist.UnconfirmedError{Err: err}
	}
	if err != nil {
		return &core.UncertainError{Offset: pos, Err: err}
	}
	return nil
}

// Leads tells whether the store is the primary of an epoch.
func (r *Replication) Leads(epoch uint64) bool { return !r.s.Replica.Load() && r.Epoch() == epoch }

// Holds tells whether the store's log has all records below an offset of a primary's log in an epoch.
func (r *Replication) Holds(epoch, offset uint64) bool {
	if r.s.Log == nil || epoch > MaxEpoch {
		return false
	}
	l := r.Lineage()
	return l.Holds(uint32(epoch), offset, r.Position())
}

// TermError says that a change was asked for in the name of an epoch in which the store does not lead. Nothing was changed.
// It matches ErrDeposed.
type TermError struct {
	Got  uint64 // the epoch that was named
	Want uint64 // the epoch of the log
}

func (e *TermError) Error() string {
	return fmt.Sprintf("counter: a change of epoch %d: this node does not lead in it, its log is of epoch %d", e.Got, e.Want)
}

// Is makes errors.Is(err, ErrDeposed) true.
func (e *TermError) Is(target error) bool { return target == ErrDeposed }
