package replica

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist/format"
)

// A store made with Options.Elected leads a term at a time, each of an epoch that others gave it, and acknowledges only
// changes that all required nodes have: the next primary is one of them. Who they are, and how far they are, the store is
// told.

// ErrEpoch: a term cannot have that epoch. Matches every *EpochError.
var ErrEpoch = errors.New("counter: epoch")

// EpochError says that an epoch is not above the last one seen, or is invalid. Nothing was changed.
type EpochError struct {
	Got  uint64
	Seen uint64 // the highest so far
}

func (e *EpochError) Error() string {
	if e.Got == 0 || e.Got > MaxEpoch {
		return fmt.Sprintf("epoch %d: want one from 1 to %d", e.Got, uint64(MaxEpoch))
	}
	return fmt.Sprintf("epoch %d is over: epoch %d has been seen", e.Got, e.Seen)
}

// Is makes errors.Is(err, ErrEpoch) true.
func (e *EpochError) Is(target error) bool { return target == ErrEpoch }

// MaxEpoch is the highest epoch: the log's files and frames have 32 bits for it.
const MaxEpoch = math.MaxUint32

// ErrElected: this node alone cannot decide which node leads.
var ErrElected = errors.New("the roles of this node are those of its cluster")

// ErrDeposed: the node leads no more, or never did.
var ErrDeposed = errors.New("counter: this node is not the primary any more")

// quorum is why nobody waits for others to have a change. Lock order: mu, then the log's.
type quorum struct {
	mu      sync.Mutex
	resting bool
	owner   error // of Doubt
}

// stopConfirming has all who wait answered: the store leads no more, or in another term, in which what they wait for may be
// confirmed or not.
func (r *Replication) stopConfirming() {
	r.quorum.mu.Lock()
	defer r.quorum.mu.Unlock()
	r.quorum.resting = true
	r.s.Log.Quorum().Doubt(ErrDeposed)
}

// LeadAt makes the store a primary in a term of an epoch, which is higher than all that its log knows: else the error
// is an *EpochError. Nothing is confirmed, and nothing in doubt. It returns the offset that the term begins at, which is
// the log's end; called again for the same epoch, it does no more.
func (r *Replication) LeadAt(epoch uint64) (at uint64, err error) {
	if r.s.Log == nil {
		return 0, core.ErrInMemory
	}
	if epoch == 0 || epoch > MaxEpoch {
		return 0, &EpochError{Got: epoch, Seen: r.Epoch()}
	}
	if l := r.Lineage(); !r.s.Replica.Load() && uint64(l.Current().Epoch) == epoch {
		return l.Terms[len(l.Terms)-1].Start, nil
	}
	if seen := r.Epoch(); epoch <= seen {
		return 0, &EpochError{epoch, seen}
	}
	r.s.Log.Quorum().Confirm(0) // others may lack changes confirmed in an earlier term
	if err = r.changeRole(func(end uint64) format.Lineage {
		at = end
		l := r.Lineage()
		return l.BeginAt(end, uint32(epoch))
	}); err != nil {
		return 0, err
	}
	if err := r.ClearBehind(); err != nil {
		r.s.Config.Logger.Warn("cannot record that this node became primary with incomplete data", "error", err)
	}
	r.quorum.mu.Lock()
	defer r.quorum.mu.Unlock()
	r.quorum.resting, r.quorum.owner = false, nil
	r.s.Log.Quorum().Doubt(nil)
	return at, nil
}

// Epoch is that of the log's last term, 0 if it has none.
func (r *Replication) Epoch() uint64 {
	l := r.Lineage()
	return uint64(l.Current().Epoch)
}

// Confirm tells that all nodes that must have the log have it up to an offset. It may fall: see persist.Log.Confirm.
// Only an Elected store is told.
func (r *Replication) Confirm(pos uint64) {
	if r.s.Log != nil && r.s.Config.Elected {
		r.s.Log.Quorum().Confirm(pos)
	}
}

// Everywhere is an offset for Confirm where no other node must have anything.
const Everywhere = math.MaxUint64

// Confirmed is the offset of the last Confirm; Everywhere where no other node must have anything.
func (r *Replication) Confirmed() uint64 {
	if r.s.Log == nil {
		return Everywhere
	}
	return r.s.Log.Quorum().Confirmed()
}

// Awaited tells whether somebody waits for Confirm.
func (r *Replication) Awaited() bool { return r.s.Log != nil && r.s.Log.Quorum().Awaited() }

// Doubt has who waits for Confirm answered by an *UncertainError, until it is called with nil, or LeadAt is.
func (r *Replication) Doubt(err error) {
	if r.s.Log == nil {
		return
	}
	r.quorum.mu.Lock()
	defer r.quorum.mu.Unlock()
	if r.quorum.owner = err; !r.quorum.resting {
		r.s.Log.Quorum().Doubt(err)
	}
}
