package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
)

var (
	// ErrOutOfRange: the value would leave [0, min(2^max-1, 2^63-1)] of its column. Nothing was changed.
	ErrOutOfRange = core.ErrOutOfRange

	// ErrClosed: the store was closed.
	ErrClosed = core.ErrClosed

	// ErrMaxMemory: maxmemory is passed by more than the headroom, as ranges cannot be written to disk fast enough, or
	// not at all. Nothing was changed.
	ErrMaxMemory = core.ErrMaxMemory

	// ErrReplica: the store follows a primary and takes no changes of its own. Nothing was changed.
	ErrReplica = core.ErrReplica

	// ErrImporting: all posts cannot be removed while some are on their way here. Nothing was changed.
	ErrImporting = core.ErrImporting

	// ErrMismatch: the number was used for another command, or with other arguments. Nothing was changed.
	ErrMismatch = core.ErrMismatch

	// ErrNotOwned is matched by each *NotOwnedError.
	ErrNotOwned = core.ErrNotOwned

	// ErrNoKey: a key names no column or item of the schema.
	ErrNoKey = block.ErrNoKey

	// ErrCold: a page of a cold file is damaged or cannot be read, and the requested values were not set since. The
	// other items are served.
	ErrCold = block.ErrCold

	// ErrNoMemory: the system gives no more memory. Nothing was changed.
	ErrNoMemory = arena.ErrNoMemory

	// ErrNotReady: the log takes no changes, as the disk is full, slow or broken. Nothing was changed. It ends by
	// itself when the disk is well.
	ErrNotReady = format.ErrNotReady

	// ErrInMemory: the store has no directory.
	ErrInMemory = core.ErrInMemory

	// ErrBusy: a snapshot is being made already.
	ErrBusy = durable.ErrBusy

	// ErrScrubbing: a round of verifying files is under way.
	ErrScrubbing = durable.ErrScrubbing

	// ErrNoBlock: there is no block of that kind to change the tier of.
	ErrNoBlock = tier.ErrNoBlock
)
