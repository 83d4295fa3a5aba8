package counter

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
)

var (
	// ErrOutOfRange: the value would leave [0, min(2^max-1, 2^63-1)] of its column. Nothing was changed.
	ErrOutOfRange = errors.New("counter: value out of range")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("counter: store is closed")

	// ErrNoKey: a key names no column or item of the schema.
	ErrNoKey = block.ErrNoKey

	// ErrCold: a page of a cold file is damaged or cannot be read, and what was asked for was not set since. The other
	// items are served.
	ErrCold = block.ErrCold

	// ErrNoMemory: the system gives no more memory. Nothing was changed.
	ErrNoMemory = arena.ErrNoMemory

	// ErrMaxMemory: maxmemory is passed by more than the headroom, as ranges cannot be written to disk fast enough, or
	// not at all. Nothing was changed.
	ErrMaxMemory = errors.New("counter: used memory > maxmemory and cold ranges cannot be written to disk fast enough")

	// ErrNotReady: the log takes no changes, as the disk is full, slow or broken. Nothing was changed. It ends by
	// itself when the disk is well.
	ErrNotReady = format.ErrNotReady

	// ErrBusy: a snapshot is being made already.
	ErrBusy = errors.New("counter: a snapshot is being made already")

	// ErrScrubbing: a round of verifying files is under way.
	ErrScrubbing = errors.New("counter: files are being verified already")
	// ErrInMemory: the store has no directory.
	ErrInMemory = errors.New("counter: data is kept in memory only: there is no directory")
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

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
