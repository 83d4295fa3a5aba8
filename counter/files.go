package counter

import (
	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// The files of a data directory.
type (
	// Pins keep files and log from being removed while they are copied: see Store.Pins.
	Pins = durable.Pins
	// Pin keeps files and log from being removed while they are copied to a replica or into an archive.
	Pin = durable.Pin
	// Archive is the store's state, about to be written as one file: see Admin.Archive.
	Archive = durable.Archive
	// SnapshotStats tells about snapshots.
	SnapshotStats = durable.SnapshotStats
	// DiskStats tells about the room on the data directory's file system, in bytes.
	DiskStats = durable.DiskStats

	// FileRow is one row of a block's file, as tools show it: without the schema, by the columns' ids.
	FileRow = durable.FileRow
	// RowState is the relation of a row of an overlay to the cold file below it.
	RowState = durable.RowState
)

// FreeUnknown is the Free of DiskStats where it is not known.
const FreeUnknown = durable.FreeUnknown

// States of rows. Rows of other files are RowPlain.
const (
	RowPlain   = durable.RowPlain
	RowShadow  = durable.RowShadow  // in the cold file too: these are its values now
	RowFresh   = durable.RowFresh   // not in the cold file
	RowGone    = durable.RowGone    // in the cold file, but deleted: the columns mean nothing
	RowPartial = durable.RowPartial // on a page of the cold file that cannot be read; the columns are those that were set since
)

// ImageRows verifies an image of a hot block or of an overlay and calls fn for each row, in order of mid, partial rows
// first.
func ImageRows(fsys vfs.FS, path string, fn func(FileRow) error) error {
	return durable.ImageRows(fsys, path, fn)
}

// ImageProducers reads the image of a table of producers, and describes them all.
func ImageProducers(fsys vfs.FS, path string) ([]ProducerInfo, error) {
	return durable.ImageProducers(fsys, path)
}

// ColdRows calls fn for each row of a cold file that can be read, in order of mid, and returns the ranges of mids that
// cannot. An error is one of fn, or of a file that cannot be opened.
func ColdRows(fsys vfs.FS, path string, fn func(FileRow) error) (lost []snapfile.MidRange, err error) {
	return durable.ColdRows(fsys, path, fn)
}

// ColdVerifier returns a function that verifies a cold file, page by page, against itself and its entry in a manifest.
// Faults come as a *snapfile.BlockFault.
func ColdVerifier(fsys vfs.FS) func(path string, c *format.CounterFiles, b *format.BlockFile) error {
	return durable.ColdVerifier(fsys)
}

// CheckBlockFile reads the file of a block that a manifest names, whole, and tells whether it is as the manifest says
// and can be opened.
func CheckBlockFile(fsys vfs.FS, dir string, c *format.CounterFiles, b *format.BlockFile) error {
	return durable.CheckBlockFile(fsys, dir, c, b)
}
