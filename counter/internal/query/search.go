package query

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

const (
	// StepTime is about how long a step takes. An exclusive operation, and all operations behind it, wait that long.
	// Beginning and ending one takes 1 us, and a page that it ends in is read again, for some more.
	StepTime = 300 * time.Microsecond
	// StepRows is about how many rows it finds at most.
	StepRows = 4096
	// maxFront bounds the rows kept of the block that a search is in.
	maxFront = 4 << 20 / 8
)

// Search finds the items of a query, a step at a time, in the order of their mids. Between two steps anything may
// happen to the store: blocks are found again by the mid to go on at.
//
// An item that meets the query from the first step to the last is found exactly once; an item that changes meanwhile is
// found if it met the query when the search came to it.
//
// It is in one block at a time:
//
//	hot    all of its items that meet the query are copied to front, some buckets at a time, under its lock (an item
//	       stays in its bucket), sorted, and given out from there. Most are in items, as they are packed, and not in front
//	cold   those of its overlay are copied to front; the file is read page by page, without the lock, where the bounds
//	       of a page say that it may have some, and merged with front. A row of the file that the overlay has as well
//	       is looked at there, under the lock, unless it is in front
//
// When the block is replaced meanwhile, front is forgotten, and the search goes on in the block that took its place.
type Search struct {
	Query   Query
	spans   []span
	mids    []uint64 // of Query.Mids, sorted, each once
	not     []uint64 // the same of Query.NotMids
	columns []int16  // of the rows
	Most    int      // rows of a step
	// Not nil: rows are given to it in any order, not kept in rows. It may narrow spans.
	sink func(*Rows)
	bare bool // with a sink: it does not look at mids
	Read int  // pages of files, for tests
	Into int  // blocks entered, for tests
	turns

	own  block.Ownership // as it was at the last step: posts that it hides are not found
	hide bool            // it is asked for each item
	at   uint64          // the next mid to look at
	Over bool            // there is none

	asked int // items of the list from at on whose pages were asked for

	// Of the schema in force, see bind.
	bound *schema.Counter
	Space block.Space
	Ks    *block.Keyspace

	// In a store with SlotGroups: the group of ks. Without order, for a sink, the search goes from one to the next; in order
	// it is one of windows that another fills (merge.go); single says that it is of one group only.
	group   uint8
	single  bool
	covered slot.Set // groups that are not looked at
	dry     bool     // nothing can be found any more, in other groups either
	merged  *merging

	Rows Rows // of the present step

	wanted []int // columns of rows, as indexes in ks.Def.Columns
	tested []int // the same of spans
	whole  []uint64

	inside
}

// inside is the block that a search is in.
type inside struct {
	Blk    *block.Block // nil: none
	lo, hi uint64       // front holds its items with mids from lo to hi, both inclusive
	Front  Rows         // those that meet the query, rising
	rest   []uint64     // those of front that are not given out yet, rising
	sorter rowSorter
	edits  uint64   // a hot block's, when front was begun
	bad    []uint64 // mids of partial rows of which it is not known whether they meet the query, rising

	scan   *coldstore.PageScan // of a cold block's file
	ranges []coldstore.Range   // spans of columns that the file has
	spanOf []int               // which ones
	fields []int               // wanted columns as the file has them, -1: the default
	none   bool                // no row of the file meets the query
	pages  int                 // read so far
	page   Rows                // of the present page
	named  bool                // with their mids
	sel    []int32

	hot   hot.Selection
	items *hotItems // nil before the first hot block
}

func (s *Search) Init(q Query, columns []int16) error {
	if err := q.check(); err != nil {
		return err
	}
	s.Query, s.columns, s.Most, s.Pause = q, columns, StepRows, runtime.Gosched
	if s.columns == nil {
		for c := range q.Counter.Columns {
			s.columns = append(s.columns, int16(c))
		}
	}
	for _, c := range s.columns {
		if err := CheckStored(&q, c); err != nil {
			return err
		}
	}
	if err := checkWhereStored(&q); err != nil {
		return err
	}
	s.Rows.width = 1 + len(s.columns)
	s.Front.width, s.page.width = s.Rows.width, s.Rows.width
	var any bool
	s.spans, any = q.spans()
	s.mids, s.not = sortedSet(q.Mids), sortedSet(q.NotMids)
	s.Query.To = min(q.To, schema.MaxMid)
	s.restart(q.From, s.Query.To)
	s.Over = s.Over || !any || q.Mids != nil && len(q.Mids) == 0
	return nil
}

// restart has the search begin again with another range.
func (s *Search) restart(from, to uint64) {
	s.Leave()
	s.Query.From, s.Query.To = from, to
	if s.at = from; s.Query.Desc {
		s.at = to
	}
	s.Over = from > to
	s.list()
}

// sortedSet returns a sorted copy without repetitions.
func sortedSet(mids []uint64) []uint64 {
	if len(mids) == 0 {
		return nil
	}
	set := slices.Clone(mids)
	slices.Sort(set)
	return slices.Compact(set)
}

// list moves at to the next mid of the list, where there is one.
func (s *Search) list() {
	if s.Over || s.mids == nil {
		return
	}
	i, found := slices.BinarySearch(s.mids, s.at)
	if s.Query.Desc && !found {
		i--
	}
	if i < 0 || i == len(s.mids) || s.mids[i] < s.Query.From || s.mids[i] > s.Query.To {
		s.Over = true
		return
	}
	s.at = s.mids[i]
}

// passTo moves at behind all mids up to mid, in the order of the query.
func (s *Search) passTo(mid uint64) {
	if s.Query.Desc {
		s.Over, s.at = mid <= s.Query.From, mid-1
	} else {
		s.Over, s.at = mid >= s.Query.To, mid+1
	}
	s.list()
}

// Bind finds the counter and the columns in the schema in force. REQUIRES b to be open.
func (s *Search) Bind(b View) error {
	def := b.Schema().CounterByID(s.Query.Counter.ID)
	if def == nil {
		return &DroppedError{Counter: s.Query.Counter.Name}
	}
	s.Space = b.Space(def.ID)
	ks := s.Space[int(s.group)%len(s.Space)]
	if own := b.Owned(); s.own != own {
		s.Leave() // and what was copied of the block
		s.own = own
		s.hide = s.own.Some && (len(s.Space) == 1 || s.mids != nil)
	}
	if s.bound == def && s.Ks == ks {
		return nil
	}
	s.Leave()
	s.Ks = ks
	s.wanted, s.tested = s.wanted[:0], s.tested[:0]
	for _, c := range s.columns {
		i, err := Place(&s.Query, def, c)
		if err != nil {
			return err
		}
		s.wanted = append(s.wanted, i)
	}
	for _, sp := range s.spans {
		i, err := Place(&s.Query, def, int16(sp.column))
		if err != nil {
			return err
		}
		s.tested = append(s.tested, i)
	}
	s.bound = def
	return nil
}

// Step finds the next rows, about so many, and never more if exact. REQUIRES b to be open.
func (s *Search) Step(b View, limit int, exact bool) error {
	Clear(&s.Rows)
	if err := s.Bind(b); err != nil {
		s.Leave()
		return err
	}
	if len(s.Space) > 1 && s.mids == nil {
		if s.sink == nil {
			return s.stepMerged(b, limit, exact)
		}
		if !s.Over && passes(s, b) {
			s.Over = !s.nextGroup(b)
		}
	}
	if s.Blk != nil && !s.stillIn(s.Blk) {
		s.Leave()
	}
	for began := time.Now(); !s.Over && s.Rows.Len() < min(limit, s.Most); {
		var err error
		left := math.MaxInt
		if exact {
			left = limit - s.Rows.Len()
		}
		switch {
		case s.mids != nil:
			err = s.stepOne(b)
		case s.Blk == nil:
			err = s.enter(b, left)
		case s.Blk.Cold == nil:
			s.giveFront(left)
		default:
			err = s.nextPage(b, left)
		}
		if err != nil {
			s.Leave()
			if s.Rows.Len() > 0 { // those first: the next step comes here again
				return nil
			}
			return err
		}
		if s.sink != nil {
			s.sink(&s.Rows)
			Clear(&s.Rows)
		}
		if s.Over {
			s.Leave()
			s.Over = !s.nextGroup(b)
		}
		if time.Since(began) > StepTime {
			return nil
		}
	}
	if s.Over && s.Blk == nil {
		leaveMemory(s)
	}
	return nil
}

// nextGroup has a search without order begin with the next group that is to be seen, and tells whether there is one.
func (s *Search) nextGroup(b View) bool {
	if s.single || s.dry || s.mids != nil {
		return false
	}
	for int(s.group)+1 < len(s.Space) {
		s.group++
		if s.Ks = s.Space[s.group]; !passes(s, b) {
			s.restart(s.Query.From, s.Query.To)
			return true
		}
	}
	return false
}

// stillIn tells whether a block is in use.
func (s *Search) stillIn(blk *block.Block) bool {
	blk.Mu.Lock()
	defer blk.Mu.Unlock()
	return !blk.Dead
}

// Leave forgets the block that the search is in.
func (s *Search) Leave() {
	if s.scan != nil {
		s.scan.Close()
	}
	s.Blk, s.scan, s.bad, s.merged = nil, nil, nil, s.merged.leave()
	Clear(&s.Front)
	s.rest = nil
	s.items.leave()
}

// listAhead is how many items of a list have their pages asked for at a time.
const listAhead = 64

// prefetchPages starts to bring the pages of the next items of the list into memory, a number of them at a time: waiting for
// one page takes as long as waiting for all.
func (s *Search) prefetchPages() {
	if s.asked--; s.asked >= 0 {
		return
	}
	i, _ := slices.BinarySearch(s.mids, s.at)
	ahead := s.mids[i:min(i+listAhead, len(s.mids))]
	if s.Query.Desc {
		ahead = s.mids[max(0, i+1-listAhead) : i+1]
	}
	s.asked = len(ahead) - 1
	for _, mid := range ahead {
		if blk := s.Space.Of(mid).Dir.Load().Find(mid); blk.Cold != nil {
			file := blk.Cold.File
			file.Prefetch(file.Locate(mid))
		}
	}
}

// stepOne looks at the item at, which is one of a list.
func (s *Search) stepOne(b View) error {
	s.prefetchPages()
	s.Ks = s.Space.Of(s.at)
	blk := s.Ks.Lock(s.at)
	defer blk.Mu.Unlock()
	b.NoteSeen(blk.Logged)
	mid := s.at
	p, err := s.Ks.Find(blk, mid)
	if err != nil {
		return s.Damage(mid, mid, err)
	}
	if p.Found() {
		if err := s.Item(&s.Rows, blk, mid, p); err != nil {
			return s.Damage(mid, mid, err)
		}
	}
	s.passTo(mid)
	return nil
}

// Item appends the item at p, which was found, if it meets the query. REQUIRES blk.Mu held.
func (s *Search) Item(rows *Rows, blk *block.Block, mid uint64, p block.Location) error {
	if s.excluded(mid) {
		return nil
	}
	if p.Readable() {
		return s.row(rows, blk, mid, p)
	}
	for i, c := range s.tested {
		v, err := s.Ks.Value(blk, mid, p, c)
		if err != nil {
			// The known columns of a partial row may rule it out all the same.
			for j := i + 1; j < len(s.tested); j++ {
				if v, err := s.Ks.Value(blk, mid, p, s.tested[j]); err == nil && !s.spans[j].holds(v) {
					return nil
				}
			}
			return err
		}
		if !s.spans[i].holds(v) {
			return nil
		}
	}
	n := len(rows.flat)
	rows.flat = append(rows.flat, mid)
	for _, c := range s.wanted {
		v, err := s.Ks.Value(blk, mid, p, c)
		if err != nil {
			rows.flat = rows.flat[:n]
			return err
		}
		rows.flat = append(rows.flat, v)
	}
	return nil
}

// row is item of one that can be read.
func (s *Search) row(rows *Rows, blk *block.Block, mid uint64, p block.Location) error {
	var err error
	if s.whole, err = s.Ks.AppendRow(s.whole[:0], blk, mid, p); err != nil {
		return err
	}
	if !Meets(s, mid, s.whole) {
		return nil
	}
	rows.flat = append(rows.flat, mid)
	for _, c := range s.wanted {
		rows.flat = append(rows.flat, s.whole[c])
	}
	return nil
}

// excludes tells whether there may be items that are excluded.
func (s *Search) excludes() bool { return len(s.not) > 0 || s.hide }

// excluded tells whether a mid is one of NotMids, or not to be seen.
func (s *Search) excluded(mid uint64) bool {
	if !s.excludes() {
		return false
	}
	_, found := slices.BinarySearch(s.not, mid)
	return found || s.hide && s.own.Hides(mid)
}

// Damage is the error of items with mids from lo to hi that cannot be read.
func (s *Search) Damage(lo, hi uint64, err error) error {
	return &RangeError{s.Ks.Def, snapfile.MidRange{Lo: lo, Hi: hi + 1}, err}
}

var ErrDamaged = errors.New("a page of its file is damaged")

// enter begins with the block that holds at. So many rows are wanted at most.
func (s *Search) enter(b View, left int) error {
	blk := s.Ks.Lock(s.at)
	s.Blk = blk
	s.Into++
	s.lo, s.hi = max(blk.Lo, s.Query.From), min(blk.Hi-1, s.Query.To)
	if s.Query.Desc {
		s.hi = s.at
	} else {
		s.lo = s.at
	}
	if blk.Cold == nil {
		s.enterHot(b, left)
		return nil
	}
	return s.enterCold(b)
}
