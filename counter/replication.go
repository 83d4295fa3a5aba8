package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/replica"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Replication, and groups of hash slots on their way from one store to another.
type (
	// Replication is a store's side of replication: its role and the lineage of its log, the nodes that must have a change, and the
	// frames of a primary. See Store.Replication.
	Replication = replica.Replication
	// FrameChecker tells whether the frames of a log can be applied, one after the other. NOT safe for concurrent use.
	FrameChecker = replica.FrameChecker

	// Groups are the posts of a store by groups of hash slots: which of them clients may touch. See Store.Groups.
	Groups = replica.Groups
	// NotOwnedError says that a post's hash slot is of a group that is not served here: see Groups.Own. Nothing was changed.
	NotOwnedError = core.NotOwnedError
	// GroupStats is the number and the size of the posts of a group of hash slots.
	GroupStats = replica.GroupStats
	// GroupExport lets another store take groups of hash slots over, while they are used: see Groups.Export.
	GroupExport = replica.GroupExport
	// GroupImport takes groups of hash slots over from another store: see Groups.Import.
	GroupImport = replica.GroupImport
	// DerivedPiece is some items of a derived column, for another store: see Groups.Derived.
	DerivedPiece = replica.DerivedPiece
	// ExportPlace is where GroupExport.Rows goes on: a keyspace's number, and a mid. The zero value is the beginning.
	ExportPlace = replica.ExportPlace

	// EpochError says that an epoch is not above the highest epoch so far, or is no epoch. Nothing was changed.
	EpochError = replica.EpochError
	// TermError says that a change was asked for in the name of an epoch in which the store does not lead. Nothing was
	// changed. It matches ErrDeposed.
	TermError = replica.TermError
)

// MaxEpoch is the highest epoch: the log's files and frames have 32 bits for it.
const MaxEpoch = replica.MaxEpoch

// Everywhere is an offset for Replication.Confirm where no other node must have anything.
const Everywhere = replica.Everywhere

// Errors of replication, and of groups of hash slots.
var (
	// ErrEpoch: a term cannot have that epoch. Matches every *EpochError.
	ErrEpoch = replica.ErrEpoch
	// ErrElected: this node alone does not decide the primary.
	ErrElected = replica.ErrElected
	// ErrDeposed: the node leads no more, or never did.
	ErrDeposed = replica.ErrDeposed
	// ErrUnconfirmed: the requested records are not on all nodes yet that must have them. The same may go well in a moment.
	ErrUnconfirmed = replica.ErrUnconfirmed
	// ErrNotHere: posts of groups of hash slots are asked for that the log says are on their way here, or have gone.
	ErrNotHere = replica.ErrNotHere
	// ErrTimeBehind: the time of the log is so far behind the clock that all of a window will have gone when it moves on, within ten minutes.
	// Nothing was changed.
	ErrTimeBehind = replica.ErrTimeBehind
	// ErrNotImporting: groups of hash slots are not on their way here by this move, or not any more. Nothing was changed.
	ErrNotImporting = replica.ErrNotImporting
	// ErrBehind: a record has a counter or a column that the schema here has not yet. Nothing was changed.
	ErrBehind = replica.ErrBehind
)

// NewFrameChecker returns a checker for the frames behind a snapshot; nil: from the log's beginning. The snapshot has passed
// CheckManifest.
func NewFrameChecker(m *format.Manifest) (*FrameChecker, error) { return replica.NewFrameChecker(m) }

// CheckManifest verifies that a snapshot could be opened as far as its manifest tells: that the schema can be read, and
// that the blocks of each counter cover all mids. The error matches format.ErrCorrupt.
func CheckManifest(m *format.Manifest) error { return replica.CheckManifest(m) }

// LacksNothing returns nil if the Elected store of a data directory that is not open has all that it ever acknowledged, as far as the log is whole
// and has no torn tail. bootID is that of Options.
func LacksNothing(fsys vfs.FS, dir, bootID string) error {
	o := Options{BootID: bootID}
	return replica.LacksNothing(fsys, dir, o.bootID())
}

// NoteGone is NoteBehind for a directory of a store that was Elected, if its note or its log is gone: nobody knows how the machine ended, or how
// far the log went.
func NoteGone(fsys vfs.FS, dir string) (noted bool, err error) {
	return replica.NoteGone(fsys, dir)
}

// NoteBehind notes, durably, in a data directory that is not open that its store may lack acknowledged changes, and
// reports whether it did: a repair is about to give up a part of the directory. The directory of a store that was never
// Elected has no such note, and stays as it is.
func NoteBehind(fsys vfs.FS, dir string) (noted bool, err error) {
	return replica.NoteBehind(fsys, dir)
}
