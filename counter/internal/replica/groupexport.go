package replica

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
)

// GroupExport gives another store the records that it needs to take groups of hash slots over while they are used.
// GroupImport applies them. First what was done for producers, as it was at a log offset, then the posts, block after
// block, each as it is when it is copied, then what the log says of the groups from that offset on. Whoever has applied
// the log up to an offset has the groups as they were there: values are absolute, so what a post's copy had already does
// no harm.
//
// What producers did and the log are given only as far as all nodes have them that must (Replication.Confirmed): another
// store that remembers a change which a failover takes back would answer its repeat as made. Posts are given as they are,
// since a failover of this store begins the export anew.
//
// All methods are safe for concurrent use. It keeps the log from that offset on, so it must be closed.
type GroupExport struct {
	s      *core.Data
	groups slot.Set
	from   uint64
	pin    *durable.Pin

	mu        sync.Mutex
	closed    bool
	producers []byte
	marks     []int // ends of producers
	reader    *persist.Reader
	copied    exportBlock
}

// exportBlock is rows of a block that are to be exported, in the order of mids.
type exportBlock struct {
	mids    []uint64
	columns [][]uint64
	ids     []uint16 // of the columns

	sel   hot.Selection
	flat  []uint64 // rows as the table gives them
	order []int32
	page  []byte
	enc   coldstore.RowsEncoder
}

const (
	// exportRows is how many posts a record has at most: their bytes are 4 KiB mostly.
	exportRows = 2048
	// exportBlocks is how many blocks without any of the groups a call of Rows passes over at most.
	exportBlocks = 16
	// exportScan is how much of the log a call of Log reads at most.
	exportScan = 4 << 20
)

// ErrUnconfirmed: the requested records are not yet on all nodes that must have them. The same may go well in a moment.
var ErrUnconfirmed = errors.New("counter: not all nodes that must have what is asked for are known to have it yet")

// Export begins to bring groups to another store. The error is ErrInMemory, ErrReplica, ErrClosed, or ErrNotHere where the
// log says that posts of the groups are not here: an empty copy of them would take the place of the posts elsewhere. It is
// an *UncertainError where the log cannot be written.
func (g Groups) Export(set slot.Set) (*GroupExport, error) {
	x, err := g.export(set)
	if err != nil {
		return nil, err
	}
	if err := g.repl.CommitHere(x.from); err != nil { // it may be that no one else writes the appended records
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// export notes the end of the log, and copies the memory of producers' changes up to there.
func (g Groups) export(set slot.Set) (*GroupExport, error) {
	s := g.s
	if s.Log == nil {
		return nil, core.ErrInMemory
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, err
	}
	defer b.End()
	if s.Replica.Load() {
		return nil, core.ErrReplica
	}
	if away := set.Both(s.Moving.Hidden()); away != (slot.Set{}) {
		return nil, fmt.Errorf("%w: groups %s", ErrNotHere, away)
	}
	x := &GroupExport{s: s, groups: set, pin: g.repl.pins.PinLog(s.Log.Position())}
	l := &s.Producers
	l.Mu.Lock() // their records are logged under it
	defer l.Mu.Unlock()
	x.from = s.Log.Position()
	x.producers = l.Table.AppendGroups(nil, &x.groups, l.Seconds(), func(n int) { x.marks = append(x.marks, n) })
	return x, nil
}

// From is the log offset that Log goes on from.
func (x *GroupExport) From() uint64 { return x.from }

// Groups are those that it brings.
func (x *GroupExport) Groups() slot.Set { return x.groups }

// Close lets the log go. It may be called twice.
func (x *GroupExport) Close() error {
	x.pin.Release()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.producers, x.marks, x.closed = nil, nil, true
	if x.reader == nil {
		return nil
	}
	err := x.reader.Close()
	x.reader = nil
	return err
}

// Producers returns a part of the memory of producers' changes in the groups, from a place on that an earlier call
// returned, at first 0, and the place to go on from: about max bytes, and with more only if one producer has more. It ends
// where next is 0. The error is ErrUnconfirmed until Log's end has come to From.
func (x *GroupExport) Producers(at, max int) (records []byte, next int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.confirmed() < x.from {
		return nil, 0, ErrUnconfirmed
	}
	if at < 0 || at > len(x.producers) {
		return nil, 0, fmt.Errorf("counter: producers of %d bytes from byte %d on", len(x.producers), at)
	}
	end := at
	for first, _ := slices.BinarySearch(x.marks, at+1); first < len(x.marks) && (end == at || x.marks[first]-at <= max); first++ {
		end = x.marks[first]
	}
	if next = end; end == len(x.producers) {
		next = 0
	}
	return x.producers[at:end:end], next, nil
}

// confirmed is up to where the log is given.
func (x *GroupExport) confirmed() uint64 { return min(x.s.Log.Written(), x.s.Log.Quorum().Confirmed()) }

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
	for range exportBlocks {
		if err := b.Begin(); err != nil {
			return dst, at, false, err
		}
		ks, space := spaceFrom(x.s, at.Space, &x.groups)
		if ks == nil {
			b.End()
			return dst, at, true, nil
		}
		if space != at.Space {
			at = ExportPlace{Space: space}
		}
		at.Mid, err = x.copied.copy(ks, at.Mid, &x.groups)
		counter := ks.Def.ID
		b.End()
		if err != nil {
			return dst, at, false, err
		}
		if at.Mid == hot.EndMid {
			at = ExportPlace{Space: space + 1}
		}
		if len(x.copied.mids) > 0 {
			return x.copied.appendRows(dst, counter), at, false, nil
		}
	}
	return dst, at, false, nil
}

// copy copies the posts of groups in the block that holds mid, and returns where the next one begins. REQUIRES
// Data.Gate held.
func (c *exportBlock) copy(ks *block.Keyspace, mid uint64, groups *slot.Set) (next uint64, err error) {
	c.mids, c.ids, c.columns = c.mids[:0], c.ids[:0], c.columns[:0]
	for _, col := range ks.Def.Columns {
		c.ids = append(c.ids, col.ID)
		c.columns = append(c.columns, nil)
	}
	for {
		blk := ks.Lock(mid)
		if blk.Cold != nil {
			defer blk.Mu.Unlock()
			return blk.Hi, ks.ColdRows(blk, mid, nil, func(mid uint64, row []uint64) error {
				if groups.Has(slot.Group(mid)) {
					c.add(mid, row)
				}
				return nil
			})
		}
		next = blk.Hi
		if c.selectHot(ks, blk, mid) {
			break
		}
	}
	width := 1 + len(c.columns)
	c.order = c.order[:0]
	for i := 0; i < len(c.flat); i += width {
		if groups.Has(slot.Group(c.flat[i])) {
			c.order = append(c.order, int32(i))
		}
	}
	slices.SortFunc(c.order, func(a, b int32) int { return cmp.Compare(c.flat[a], c.flat[b]) })
	for i, at := range c.order {
		if i > 0 && c.flat[at] == c.flat[c.order[i-1]] {
			continue // it went and came again meanwhile: the log tells
		}
		c.add(c.flat[at], c.flat[int(at)+1:int(at)+width])
	}
	return next, nil
}

func (c *exportBlock) add(mid uint64, row []uint64) {
	c.mids = append(c.mids, mid)
	for i, v := range row {
		c.columns[i] = append(c.columns[i], v)
	}
}

// selectHot copies the rows of a hot block from mid on, some of its buckets at a time. It is false where another took its
// place meanwhile. REQUIRES blk.Mu held; it is unlocked.
func (c *exportBlock) selectHot(ks *block.Keyspace, blk *block.Block, mid uint64) bool {
	defer func() { blk.Mu.Unlock() }()
	c.flat = c.flat[:0]
	q := &c.sel
	q.Lo, q.Hi, q.Columns, q.Defaults = mid, hot.EndMid, q.Columns[:0], q.Defaults[:0]
	for i, col := range ks.Def.Columns {
		q.Columns = append(q.Columns, ks.Field(blk, i))
		q.Defaults = append(q.Defaults, col.Default)
	}
	for from, buckets, held := 0, blk.Tab.Buckets(), 0; from < buckets; {
		to, before := min(from+query.SelectBuckets, buckets), len(c.flat)
		c.flat = blk.Tab.Select(c.flat, from, to, q)
		from = to
		if held += query.SelectCost + query.FoundCost*(len(c.flat)-before)/(1+len(q.Columns)); held < query.SelectHold || from == buckets {
			continue
		}
		held = 0
		blk.Mu.Unlock() // others have their turn
		runtime.Gosched()
		if blk.Mu.Lock(); blk.Dead {
			return false
		}
	}
	return true
}

// appendRows appends the rows copied, as records.
func (c *exportBlock) appendRows(dst []byte, counter uint32) []byte {
	for at := 0; at < len(c.mids); {
		var n int
		dst, n = c.appendRecord(dst, counter, at)
		at += n
	}
	return dst
}

// appendRecord appends a record of the rows copied from number at on, and tells how many it has.
func (c *exportBlock) appendRecord(dst []byte, counter uint32, at int) (record []byte, n int) {
	columns := make([][]uint64, len(c.columns))
	for i, col := range c.columns {
		columns[i] = col[at:]
	}
	c.page, n = c.enc.Append(c.page[:0], c.mids[at:], columns, exportRows)
	return format.AppendRows(dst, counter, c.ids, c.page), n
}

// spaceFrom returns the first keyspace from a place on that has posts of groups; nil: there is none. REQUIRES Data.Gate
// held.
func spaceFrom(s *core.Data, space uint32, groups *slot.Set) (*block.Keyspace, uint32) {
	for ; ; space++ {
		ks, more := s.KeyspaceAt(int(space))
		if ks != nil && (!s.SlotGroups || groups.Has(ks.Group)) || !more {
			return ks, space
		}
	}
}

// Log appends to dst what the log says of the groups from an offset on, which was From or a next before, as records, and
// says where to go on, and where the log ends: what is not written and confirmed yet is not there yet. It returns with
// about most bytes, or less. The error is of package persist, or ErrClosed.
func (x *GroupExport) Log(dst []byte, from uint64, most int) (records []byte, next, end uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.s
	s.Gate.RLock()
	closed := s.Closed || x.closed
	s.Gate.RUnlock()
	if closed {
		return dst, from, 0, core.ErrClosed
	}
	if end = x.confirmed(); from > end {
		return dst, from, end, nil
	}
	if x.reader != nil && x.reader.Pos() != from {
		err = x.reader.Close()
		x.reader = nil
	}
	if x.reader == nil && err == nil {
		x.reader, err = s.Log.NewReader(from)
	}
	for begin := len(dst); err == nil && len(dst)-begin < most && x.reader.Pos() < min(end, from+exportScan); {
		var f *format.Frame
		if f, err = x.reader.TryNext(); f == nil || err != nil {
			break
		}
		dst, err = appendGroups(dst, f, from, &x.groups)
	}
	if err != nil {
		return dst, from, 0, err
	}
	next = max(from, x.reader.Pos())
	return dst, next, max(next, x.confirmed()), nil
}

// appendGroups appends the records of a frame that end behind an offset and have to do with groups.
func appendGroups(dst []byte, f *format.Frame, after uint64, groups *slot.Set) ([]byte, error) {
	var rec format.Record
	var once []byte // a record that waits for the one after it
	pos := f.Start + format.FrameHeaderLen
	for src := f.Payload; len(src) > 0; {
		n, err := format.DecodeRecord(src, &rec)
		if err != nil {
			return dst, fmt.Errorf("log offset %d: %w", pos, err)
		}
		raw := src[:n]
		src = src[n:]
		if pos += uint64(n); pos <= after {
			continue
		}
		wanted := false
		switch rec.Kind {
		case format.KindSet, format.KindSetItem, format.KindDelete:
			wanted = groups.Has(slot.Group(rec.Mid))
		case format.KindOnce:
			if rec.Result == format.ResultNext {
				once = raw
				continue
			}
			group, hash, result, moves := producers.MovedOnce(groups, rec.Group, rec.Hash, format.Result{})
			wanted = moves && group == rec.Group && hash == rec.Hash
			if moves && !wanted { // of an update: another record goes along
				dst = format.AppendOnce(dst, rec.Number, rec.Seq, hash, group, result)
			}
		case format.KindDefine, format.KindFloor, format.KindFlush:
			wanted = true
		case format.KindDropRange:
			wanted = groups.Both(rec.Groups) != (slot.Set{})
		}
		if wanted {
			dst = append(append(dst, once...), raw...)
		}
		once = nil
	}
	return dst, nil
}
