package persist

import (
	"log/slog"
	"sync/atomic"

	"github.com/counterd/counterd/persist/format"
)

// admission decides whether the log takes changes: it keeps the reasons why not. Log.Ready asks it. It
// reaches nothing else of the log.
//
// Invariant: refusal is nil, or tells of the first of refusals that is set.
type admission struct {
	refusal  atomic.Pointer[NotReadyError] // why Ready refuses, nil: it does not; read by every command
	refusals [reasons]error                // guarded by Log.mu
	logger   *slog.Logger
}

// reason is why the log refuses changes. Several may hold at once; the first in this order is told.
type reason int

const (
	reasonClosed  reason = iota
	reasonGone           // the directory is not there any more
	reasonOwner          // the owner says so: Refuse
	reasonTrouble        // a write or sync failed and the bytes could not be put elsewhere yet
	reasonHang           // a write or sync does not end
	reasonSpace          // no room for a next segment and little left in this one
	reasonFull           // MaxUnsynced reached
	reasonSlow           // the oldest unsynced byte is older than MaxUnsyncedAge
	reasons
)

// NotReadyError says why the log takes no changes. It matches ErrNotReady, and the cause's own sentinels. The state
// ends by itself when the disk is well.
type NotReadyError struct {
	Reason string // for people and for MISCONF replies
	Err    error  // the cause
}

// Error gives the reason.
func (e *NotReadyError) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNotReady) true.
func (e *NotReadyError) Is(target error) bool { return target == format.ErrNotReady }

// ready returns nil when a change may be made and logged, else a *NotReadyError. One atomic load.
func (a *admission) ready() error {
	if r := a.refusal.Load(); r != nil {
		return r
	}
	return nil
}

// closing tells whether Close was called. REQUIRES: Log.mu.
func (a *admission) closing() bool { return a.refusals[reasonClosed] != nil }

// refuse sets (err != nil) or clears one reason. REQUIRES: Log.mu.
func (a *admission) refuse(why reason, err error) {
	if err == nil && a.refusals[why] == nil {
		return
	}
	a.refusals[why] = err
	for first, err := range a.refusals {
		if err == nil {
			continue
		}
		var text string
		switch reason(first) {
		case reasonClosed:
			text = "the log is closed"
		case reasonTrouble:
			text = "the log cannot be written: " + err.Error()
		case reasonSpace:
			text = "the next log segment cannot be made: " + err.Error()
		case reasonGone:
			text = "the data directory is not the one that was opened: " + err.Error()
		case reasonOwner, reasonHang, reasonFull, reasonSlow:
			text = err.Error()
		}
		if was := a.refusal.Load(); was == nil || was.Reason != text {
			a.refusal.Store(&NotReadyError{Reason: text, Err: err})
			if was == nil && why != reasonClosed {
				a.logger.Error("log refuses writes", "reason", text)
			}
		}
		return
	}
	a.refusal.Store(nil)
	a.logger.Info("log accepts writes again")
}
