package block

import (
	"errors"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/persist/format"
)

// ColdRange is the file of a cold block. The file never changes; later changes are in the block's overlay, a table of whole
// rows with one more column, which says how each row relates to the file:
//
//	rowShadow  the row is in the file too: these are its values now
//	rowFresh   the row is not in the file
//	rowGone    the row is in the file, but was deleted; its columns mean nothing
//
// Reads look into the overlay first. A write to a row that is only in the file copies it into the overlay. Where the file's
// page cannot be read, the changed columns are kept as a partial row (partial.go).
type ColdRange struct {
	File  *coldstore.File
	Entry format.BlockFile // as a manifest names it

	// Guarded by the block's lock; counts of overlay rows by state.
	fresh, gone int
	one         [1]int // room for a list of one column

	Partial map[uint64]PartialRow // by mid; none of them is in the overlay. nil, but for a damaged file
}

// ErrCold: a page of a cold file is damaged or cannot be read, and the requested values were not set since. The other items
// are served.
var ErrCold = errors.New("counter: cold file cannot be read")

// noColumns asks a file for the existence of a row only.
var noColumns = []int{}

// FileOf is the file in which an operation on mid has to look; nil: b is hot, or its overlay has the row. REQUIRES b.Mu
// held.
func (b *Block) FileOf(mid uint64) *coldstore.File {
	if b.Cold == nil {
		return nil
	}
	if b.Tab.Len() > 0 {
		if _, ok := b.Tab.Find(mid); ok {
			return nil
		}
	}
	return b.Cold.File
}
