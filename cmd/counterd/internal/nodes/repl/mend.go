package repl

import (
	"errors"
	"fmt"
	"math"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
)

// A replica whose disk lost the file of a block cannot read the posts of its range, and its primary has them all. They are
// fetched range by range (refill.go). Where that fails again and again, a link that agrees with its primary about the log
// asks for a full copy: a copy takes the place of everything, whether it is cut off or not, and no part of it has to fit the
// present data. It is given up where the primary cannot read all of its own posts: they may be whole here.
//
// This node has acknowledged its log, which goes on behind the primary's snapshot. So the copy goes into force with as
// much of the log as there is here, and not at the snapshot's end: the primary may have gone, and this node be the one
// that still has what others were told is safe.

// maxMends bounds the copies that a link asks for: an interrupted copy goes on with the missing files.
const maxMends = 3

// mendBehind is how often a range is tried to be filled before a full copy is asked for.
const mendBehind = 3

// mendIfAsked is mend, if a range could not be filled.
func (s *session) mendIfAsked(store *counter.Store) bool {
	return s.wantMend.Swap(false) && s.mend(store)
}

// mend tells whether the next connection is to ask for a copy, for the posts that cannot be read here.
func (s *session) mend(store *counter.Store) bool {
	if s.mends >= maxMends {
		return false
	}
	lost := lostBlocks(store)
	if lost == 0 {
		return false
	}
	s.mends++
	s.full, s.mending = true, true
	s.node.logger.Warn("block files are missing or unusable; requesting a full copy from the primary", "blocks", lost,
		"primary", s.primary.String(), "attempt", s.mends, "attempts", maxMends)
	return true
}

// errNoMend: the primary does not have the missing files either.
var errNoMend = errors.New("the primary has not all posts either: this node goes on without a copy")

// mendable tells whether a copy may take the place of this node's data, by the primary's past and its manifest.
func (s *session) mendable(store *counter.Store, primary *format.Lineage, m *format.Manifest) error {
	mine, end := store.Replication().Lineage(), store.Replication().Position()
	if at, known := primary.Common(math.MaxUint64, &mine, end); !known || at < end {
		return fmt.Errorf("%w: the logs agree up to %d, want %d", ErrProtocol, at, end)
	}
	return gapsOf(m)
}

// gapsOf returns errNoMend if a primary's manifest names ranges whose posts the primary has lost.
func gapsOf(m *format.Manifest) error {
	return m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if len(b.Remains("")) > 0 {
			return errNoMend
		}
		return nil
	})
}

// mended ends a mend, for good if the primary cannot help.
func (l *Link) mended(err error) {
	l.full, l.mending = false, false
	if errors.Is(err, errNoMend) {
		l.mends = maxMends
	}
	if err != nil && l.mends == maxMends {
		l.fetched.discard(l.node.fs, l.node.host.Store().Path())
	}
}

// lostBlocks is how many blocks of a store have lost their files.
func lostBlocks(store *counter.Store) (n int) {
	b := store.NewBatch()
	if b.Begin() != nil { // closed
		return 0
	}
	defer b.End()
	counter.NewReader(b).Blocks(func(i counter.BlockInfo) bool {
		if i.Lost {
			n++
		}
		return true
	})
	return n
}
