package counter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
)

// GroupExport is what another store needs to take groups of hash slots over, while they are used: records that
// GroupImport applies. First what was done for producers, as it was at a log offset, then the posts, block after block,
// each as it is when it is copied, then what the log says of the groups from that offset on. Whoever has applied the log
// up to an offset has the groups as they were there: values are absolute, so what a post's copy had already does no harm.
//
// All methods are safe for concurrent use. It keeps the log from that offset on, so it must be closed.
type GroupExport struct {
	s      *Store
	groups persist.Groups
	from   uint64
	pin    *Pin

	mu        sync.Mutex
	producers []byte
	marks     []int // ends of producers
	reader    *persist.Reader
	copied    exportBlock
	enc       coldstore.RowsEncoder
}

// exportBlock is rows of a block, with the columns of def.
type exportBlock struct {
	mids    []uint64
	columns [][]uint64
	flat    []uint64 // rows as the table gives them
	order   []int32
	sel     hot.Selection
}

const (
	// exportRows is how many posts a record has at most: their bytes are 4 KiB mostly.
	exportRows = 2048
	// exportScan is how much of the log a call of Log reads at most.
	exportScan = 4 << 20
)

// Export begins to bring groups to another store. The error is ErrInMemory, ErrReplica or ErrClosed.
func (g Groups) Export(set [slot.Groups / 64]uint64) (*GroupExport, error) {
	s := g.s
	if s.log == nil {
		return nil, ErrInMemory
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, err
	}
	defer b.End()
	if s.Replica() {
		return nil, ErrReplica
	}
	x := &GroupExport{s: s, groups: set, pin: s.repl.PinLog(s.log.Position())}
	l := &s.producers
	l.mu.Lock() // their records are logged under it
	defer l.mu.Unlock()
	x.from = s.log.Position()
	x.producers = l.table.AppendGroups(nil, &x.groups, func(n int) { x.marks = append(x.marks, n) })
	return x, nil
}

// From is the log offset that Log goes on from.
func (x *GroupExport) From() uint64 { return x.from }

// Groups are those that it brings.
func (x *GroupExport) Groups() [slot.Groups / 64]uint64 { return x.groups }

// Close lets the log go. It may be called twice.
func (x *GroupExport) Close() error {
	x.pin.Release()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.producers, x.marks = nil, nil
	if x.reader == nil {
		return nil
	}
	err := x.reader.Close()
	x.reader = nil
	return err
}

// Producers returns some of what was done for producers in the groups, from a place on that a call before returned, at
// first 0, and where to go on: about max bytes, and with more only if one producer has more. It ends where next is 0.
func (x *GroupExport) Producers(at, max int) (records []byte, next int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if at < 0 || at > len(x.producers) {
		return nil, 0, fmt.Errorf("counter: producers of %d bytes from byte %d on", len(x.producers), at)
	}
	first, _ := slices.BinarySearch(x.marks, at+1)
	if first == len(x.marks) {
		return nil, 0, nil
	}
	last, _ := slices.BinarySearch(x.marks, at+max+1)
	end := x.marks[min(max0(last-1, first), len(x.marks)-1)]
	if next = end; end == len(x.producers) {
		next = 0
	}
	return x.producers[at:end:end], next, nil
}

func max0(a, b int) int { return max(a, b) }

// ExportPlace is where Rows goes on: a keyspace's number, and a mid. The zero value is the beginning.
type ExportPlace struct {
	Space uint32
	Mid   uint64
}

// Rows appends the posts of the next block that has some of the groups to dst, as records, and says where to go on. It
// ends where done is set. A block in memory is held for 3 us at a time. The error is ErrClosed, or ErrCold, where posts
// cannot be read: they stay where they are.
func (x *GroupExport) Rows(dst []byte, at ExportPlace) (records []byte, next ExportPlace, done bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.s.NewBatch()
	for looked := 0; looked < exportBlocks; {
		if err := b.Begin(); err != nil {
			return dst, at, false, err
		}
		ks, space := x.s.spaceFrom(at.Space, &x.groups)
		if ks == nil {
			b.End()
			return dst, at, true, nil
		}
		if space != at.Space {
			at = ExportPlace{Space: space}
		}
		hi, n, err := x.copyBlock(ks, at.Mid)
		def := ks.def
		b.End()
		if err != nil {
			return dst, at, false, err
		}
		if at.Mid = hi; hi == hot.EndMid {
			at = ExportPlace{Space: space + 1}
		}
		if looked++; n > 0 {
			return x.appendRows(dst, def.ID, def.Layout.IDs()), at, false, nil
		}
	}
	return dst, at, false, nil
}
