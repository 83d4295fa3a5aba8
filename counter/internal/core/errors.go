package core

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist"
)

// Errors of operations and of batches.
var (
	// ErrInMemory: the store has no directory.
	ErrInMemory = errors.New("counter: data is kept in memory only: there is no directory")

	// ErrOutOfRange: the value would leave [0, min(2^max-1, 2^63-1)] of its column. Nothing was changed.
	ErrOutOfRange = errors.New("counter: value out of range")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("counter: store is closed")

	// ErrMaxMemory: maxmemory is passed by more than the headroom, as ranges cannot be written to disk fast enough, or
	// not at all. Nothing was changed.
	ErrMaxMemory = errors.New("counter: used memory > maxmemory and cold ranges cannot be written to disk fast enough")
)

// UncertainError says that changes were made, but are not safe on disk yet: they will be as soon as the disk is well; a
// crash before that takes them back. Or, with a *persist.UnconfirmedError inside, that another node which must have them
// may not: if it takes this one's place they are taken back.
type UncertainError struct {
	Offset uint64 // in the log, behind the changes
	Err    error
}

func (e *UncertainError) Error() string {
	var elsewhere *persist.UnconfirmedError
	if errors.As(e.Err, &elsewhere) {
		return fmt.Sprintf("changes up to log offset %d are made but not known to be on all nodes that must have them: %v", e.Offset, elsewhere)
	}
	return fmt.Sprintf("changes up to log offset %d are made but not safe on disk: %v", e.Offset, e.Err)
}

func (e *UncertainError) Unwrap() error { return e.Err }

// ErrReplica: the store follows a primary and takes no changes of its own. Nothing was changed.
var ErrReplica = errors.New("counter: the store is a replica: only its primary's changes are taken")

// ErrImporting: all posts cannot be removed while some are on their way here. Nothing was changed.
var ErrImporting = errors.New("counter: hash slots are being moved here: remove all posts when that is done")

// TakesChanges tells why no change may be made, or nil. REQUIRES: there is a log.
func (d *Data) TakesChanges() error {
	if d.Replica.Load() {
		return ErrReplica
	}
	if d.Changing.Load() {
		// A primary that has to write down whose log it is, as the disk took no writes before, stays a primary.
		if err := d.Log.Ready(); err != nil {
			return err
		}
		return ErrReplica
	}
	if err := d.Refusal.Load(); err != nil {
		return *err
	}
	return d.Log.Ready()
}
