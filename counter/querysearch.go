package counter

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

const (
	// stepTime is about how long a step takes: what needs everything exclusively, and all who come behind it, waits for
	// it. Beginning and ending one takes 1 us, and a page that it ends in is read again, for some more.
	stepTime = 300 * time.Microsecond
	// stepRows is about how many rows it finds at most.
	stepRows = 4096
	// maxFront bounds what is kept of the block that a search is in.
	maxFront = 4 << 20 / 8
)

// search finds the items of a query, a step at a time, in the order of their mids. Between two steps anything may
// happen to the store: blocks are found again by the mid to go on at.
//
// An item that meets the query from the first step to the last is found exactly once; one that changes meanwhile is
// found if it met the query when it was looked at.
//
// It is in one block at a time:
//
//	hot    all of its items that meet the query are copied to front, some buckets at a time, under its lock (an item
//	       stays in its bucket), sorted, and given out from there
//	cold   those of its overlay are copied to front; the file is read page by page, without the lock, where the bounds
//	       of a page say that it may have some, and merged with front. A row of the file that the overlay has as well
//	       is looked at there, under the lock, unless it is in front
//
// When the block is replaced meanwhile, front is forgotten, and the search goes on in the block that took its place.
type search struct {
	q       Query
	spans   []span
	mids    []uint64 // of Query.Mids, sorted, each once
	not     []uint64 // the same of Query.NotMids
	columns []int16  // of the rows
	most    int      // rows of a step
	// Not nil: rows are given to it in any order, not kept in rows. It may narrow spans.
	sink func(*Rows)
	bare bool // with a sink: it does not look at mids
	read int  // pages of files, for tests
	// Called while a block's lock is let go, for others: runtime.Gosched.
	pause func()

	own  ownership // as it was at the last step: what it hides is not found
	hide bool      // it is asked for each item
	at   uint64    // the next mid to look at
	over bool      // there is none

	asked int // items of the list from at on whose pages were asked for

	// Of the schema in force, see bind.
	bound *schema.Counter
	space block.Space
	ks    *block.Keyspace

	// Of a store made of groups: the one that ks is of. Without order, for a sink, the search goes from one to the next;
	// in order it is one of windows that another fills (querymerge.go); single says that it is of one group only.
	group  uint8
	single bool
	dry    bool // nothing can be found any more, in other groups either
	merged *merging

	rows Rows // of the present step

	wanted []int // columns of rows, as indexes in ks.Def.Columns
	tested []int // the same of spans
	whole  []uint64

	inside
}

// inside is the block that a search is in.
type inside struct {
	blk    *block.Block // nil: none
	lo, hi uint64       // front holds its items with mids from lo to hi, both inclusive
	front  Rows         // those that meet the query, rising
	order  []placed
	ends   []uint32 // scratch
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

	hot hot.Selection
}

func (s *search) init(q Query, columns []int16) error {
	if err := q.check(); err != nil {
		return err
	}
	s.q, s.columns, s.most, s.pause = q, columns, stepRows, runtime.Gosched
	if s.columns == nil {
		for c := range q.Counter.Columns {
			s.columns = append(s.columns, int16(c))
		}
	}
	for _, c := range s.columns {
		if err := q.checkColumn(c); err != nil {
			return err
		}
	}
	s.rows.width = 1 + len(s.columns)
	s.front.width, s.page.width = s.rows.width, s.rows.width
	var any bool
	s.spans, any = q.spans()
	s.mids, s.not = sortedSet(q.Mids), sortedSet(q.NotMids)
	s.q.To = min(q.To, schema.MaxMid)
	s.restart(q.From, s.q.To)
	s.over = s.over || !any || q.Mids != nil && len(q.Mids) == 0
	return nil
}

// restart has the search begin again with another range.
func (s *search) restart(from, to uint64) {
	s.leave()
	s.q.From, s.q.To = from, to
	if s.at = from; s.q.Desc {
		s.at = to
	}
	s.over = from > to
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
func (s *search) list() {
	if s.over || s.mids == nil {
		return
	}
	i, found := slices.BinarySearch(s.mids, s.at)
	if s.q.Desc && !found {
		i--
	}
	if i < 0 || i == len(s.mids) || s.mids[i] < s.q.From || s.mids[i] > s.q.To {
		s.over = true
		return
	}
	s.at = s.mids[i]
}

// passTo moves at behind all mids up to mid, in the order of the query.
func (s *search) passTo(mid uint64) {
	if s.q.Desc {
		s.over, s.at = mid <= s.q.From, mid-1
	} else {
		s.over, s.at = mid >= s.q.To, mid+1
	}
	s.list()
}

// bind finds the counter and the columns in the schema in force. REQUIRES b to be open.
func (s *search) bind(b *Batch) error {
	def := b.Schema().CounterByID(s.q.Counter.ID)
	if def == nil {
		return &DroppedError{Counter: s.q.Counter.Name}
	}
	s.space = b.s.spaces[def.ID]
	ks := s.space[int(s.group)%len(s.space)]
	if s.own != b.s.own {
		s.leave() // and what was copied of the block
		s.own = b.s.own
		s.hide = s.own.some && (len(s.space) == 1 || s.mids != nil)
	}
	if s.bound == def && s.ks == ks {
		return nil
	}
	s.leave()
	s.ks = ks
	s.wanted, s.tested = s.wanted[:0], s.tested[:0]
	for _, c := range s.columns {
		i, err := s.q.place(def, c)
		if err != nil {
			return err
		}
		s.wanted = append(s.wanted, i)
	}
	for _, sp := range s.spans {
		i, err := s.q.place(def, int16(sp.column))
		if err != nil {
			return err
		}
		s.tested = append(s.tested, i)
	}
	s.bound = def
	return nil
}

// step finds the next rows, about so many, and never more if exact. REQUIRES b to be open.
func (s *search) step(b *Batch, limit int, exact bool) error {
	s.rows.clear()
	if err := s.bind(b); err != nil {
		s.leave()
		return err
	}
	if len(s.space) > 1 && s.mids == nil {
		if s.sink == nil {
			return s.stepMerged(b, limit, exact)
		}
		if !s.over && b.s.hidden(s.ks) {
			s.over = !s.nextGroup(b)
		}
	}
	if s.blk != nil && !s.stillIn(s.blk) {
		s.leave()
	}
	for began := time.Now(); !s.over && s.rows.Len() < min(limit, s.most); {
		var err error
		left := math.MaxInt
		if exact {
			left = limit - s.rows.Len()
		}
		switch {
		case s.mids != nil:
			err = s.stepOne(b)
		case s.blk == nil:
			err = s.enter(b, left)
		case s.blk.Cold == nil:
			s.giveFront(left)
		default:
			err = s.nextPage(b, left)
		}
		if err != nil {
			s.leave()
			if s.rows.Len() > 0 { // those first: the next step comes here again
				return nil
			}
			return err
		}
		if s.sink != nil {
			s.sink(&s.rows)
			s.rows.clear()
		}
		if s.over {
			s.leave()
			s.over = !s.nextGroup(b)
		}
		if time.Since(began) > stepTime {
			return nil
		}
	}
	return nil
}

// nextGroup has a search without order begin with the next group that is to be seen, and tells whether there is one.
func (s *search) nextGroup(b *Batch) bool {
	if s.single || s.dry || s.mids != nil {
		return false
	}
	for int(s.group)+1 < len(s.space) {
		s.group++
		if s.ks = s.space[s.group]; !b.s.hidden(s.ks) {
			s.restart(s.q.From, s.q.To)
			return true
		}
	}
	return false
}

// stillIn tells whether a block is in use.
func (s *search) stillIn(blk *block.Block) bool {
	blk.Mu.Lock()
	defer blk.Mu.Unlock()
	return !blk.Dead
}

// leave forgets the block that the search is in.
func (s *search) leave() {
	if s.scan != nil {
		s.scan.Close()
	}
	s.blk, s.scan, s.bad, s.merged = nil, nil, nil, s.merged.leave()
	s.front.clear()
	s.order = s.order[:0]
}

// listAhead is how many items of a list have their pages asked for at a time.
const listAhead = 64

// prefetchPages starts to bring the pages of the next items of the list into memory, a number of them at a time: one that waits
// for the disk takes as long as all.
func (s *search) prefetchPages() {
	if s.asked--; s.asked >= 0 {
		return
	}
	i, _ := slices.BinarySearch(s.mids, s.at)
	ahead := s.mids[i:min(i+listAhead, len(s.mids))]
	if s.q.Desc {
		ahead = s.mids[max(0, i+1-listAhead) : i+1]
	}
	s.asked = len(ahead) - 1
	for _, mid := range ahead {
		if blk := s.space.Of(mid).Dir.Load().Find(mid); blk.Cold != nil {
			file := blk.Cold.File
			file.Ask(file.Locate(mid))
		}
	}
}

// stepOne looks at the item at, which is one of a list.
func (s *search) stepOne(b *Batch) error {
	s.prefetchPages()
	s.ks = s.space.Of(s.at)
	blk := s.ks.Lock(s.at)
	defer blk.Mu.Unlock()
	b.noteSeen(blk.Logged)
	mid := s.at
	p, err := s.ks.Find(blk, mid)
	if err != nil {
		return s.damage(mid, mid, err)
	}
	if p.Found() {
		if err := s.item(&s.rows, blk, mid, p); err != nil {
			return s.damage(mid, mid, err)
		}
	}
	s.passTo(mid)
	return nil
}

// item appends the item at p, which was found, if it meets the query. REQUIRES blk.Mu held.
func (s *search) item(rows *Rows, blk *block.Block, mid uint64, p block.Location) error {
	if s.excluded(mid) {
		return nil
	}
	if p.Readable() {
		return s.row(rows, blk, mid, p)
	}
	for i, c := range s.tested {
		v, err := s.ks.Value(blk, mid, p, c)
		if err != nil {
			// What is known of a partial row may leave it out all the same.
			for j := i + 1; j < len(s.tested); j++ {
				if v, err := s.ks.Value(blk, mid, p, s.tested[j]); err == nil && !s.spans[j].holds(v) {
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
		v, err := s.ks.Value(blk, mid, p, c)
		if err != nil {
			rows.flat = rows.flat[:n]
			return err
		}
		rows.flat = append(rows.flat, v)
	}
	return nil
}

// row is item of one that can be read.
func (s *search) row(rows *Rows, blk *block.Block, mid uint64, p block.Location) error {
	var err error
	if s.whole, err = s.ks.AppendRow(s.whole[:0], blk, mid, p); err != nil {
		return err
	}
	for i, c := range s.tested {
		if !s.spans[i].holds(s.whole[c]) {
			return nil
		}
	}
	rows.flat = append(rows.flat, mid)
	for _, c := range s.wanted {
		rows.flat = append(rows.flat, s.whole[c])
	}
	return nil
}

// excludes tells whether there may be items that are excluded.
func (s *search) excludes() bool { return len(s.not) > 0 || s.hide }

// excluded tells whether a mid is one of NotMids, or not to be seen.
func (s *search) excluded(mid uint64) bool {
	if !s.excludes() {
		return false
	}
	_, found := slices.BinarySearch(s.not, mid)
	return found || s.hide && s.own.hides(mid)
}

// damage is the error of items with mids from lo to hi that cannot be read.
func (s *search) damage(lo, hi uint64, err error) error {
	return &RangeError{s.ks.Def, snapfile.MidRange{Lo: lo, Hi: hi + 1}, err}
}

var errDamaged = errors.New("a page of its file is damaged")

// enter begins with the block that holds at. So many rows are wanted at most.
func (s *search) enter(b *Batch, left int) error {
	blk := s.ks.Lock(s.at)
	s.blk = blk
	s.lo, s.hi = max(blk.Lo, s.q.From), min(blk.Hi-1, s.q.To)
	if s.q.Desc {
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

// selection makes s.hot mean the query in the table of a block, and tells whether an item there can meet it. REQUIRES
// blk.Mu held.
func (s *search) selection(blk *block.Block) bool {
	q := &s.hot
	q.Lo, q.Hi, q.NoMids = s.lo, s.hi, s.bare && blk.Cold == nil && !s.excludes()
	q.Ranges, q.Columns, q.Defaults = q.Ranges[:0], q.Columns[:0], q.Defaults[:0]
	if blk.Cold != nil { // the first column says whether the row is there
		q.Ranges = append(q.Ranges, hot.Range{Column: blk.Tab.Layout().Index(block.StateColumn), Hi: block.RowGone - 1})
	}
	for i, c := range s.tested {
		sp := &s.spans[i]
		if f := s.ks.Field(blk, c); f >= 0 {
			q.Ranges = append(q.Ranges, hot.Range{Column: f, Lo: sp.lo, Hi: sp.hi, Not: sp.not})
		} else if !sp.holds(s.ks.Def.Columns[c].Default) {
			return false
		}
	}
	for _, c := range s.wanted {
		q.Columns = append(q.Columns, s.ks.Field(blk, c))
		q.Defaults = append(q.Defaults, s.ks.Def.Columns[c].Default)
	}
	return true
}

// spanFor returns the number of the span of a column, which it makes if there is none. REQUIRES that no step was taken.
func (s *search) spanFor(column int) int {
	for i := range s.spans {
		if s.spans[i].column == column {
			return i
		}
	}
	s.spans = append(s.spans, span{column: column, hi: math.MaxUint64})
	return len(s.spans) - 1
}

// narrow changes the conditions of span i.
func (s *search) narrow(i int, lo, hi uint64) {
	s.spans[i].lo, s.spans[i].hi = lo, hi
	if lo > hi {
		s.over, s.dry = true, true
	}
	for k, of := range s.spanOf {
		if of == i && k < len(s.ranges) {
			s.ranges[k].Lo, s.ranges[k].Hi = lo, hi
		}
	}
}

// drop removes excluded items of front.
func (s *search) drop() {
	if !s.excludes() {
		return
	}
	w, n := s.front.width, 0
	for i := 0; i < len(s.front.flat); i += w {
		if !s.excluded(s.front.flat[i]) {
			n += copy(s.front.flat[n:], s.front.flat[i:i+w])
		}
	}
	s.front.flat = s.front.flat[:n]
}
