package query

import (
	"math"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
)

// selection makes s.hot mean the query in the table of a block, and tells whether an item there can meet it. REQUIRES
// blk.Mu held.
func (s *Search) selection(blk *block.Block) bool {
	q := &s.hot
	q.Lo, q.Hi, q.NoMids = s.lo, s.hi, s.bare && blk.Cold == nil && !s.excludes()
	q.Ranges, q.Columns, q.Defaults = q.Ranges[:0], q.Columns[:0], q.Defaults[:0]
	if blk.Cold != nil { // the first column says whether the row is there
		q.Ranges = append(q.Ranges, hot.Range{Column: blk.Tab.Layout().Index(block.StateColumn), Hi: block.RowGone - 1})
	}
	for i, c := range s.tested {
		sp := &s.spans[i]
		if f := s.Ks.Field(blk, c); f >= 0 {
			q.Ranges = append(q.Ranges, hot.Range{Column: f, Lo: sp.lo, Hi: sp.hi, Not: sp.not})
		} else if !sp.holds(s.Ks.Def.Columns[c].Default) {
			return false
		}
	}
	for _, c := range s.wanted {
		q.Columns = append(q.Columns, s.Ks.Field(blk, c))
		q.Defaults = append(q.Defaults, s.Ks.Def.Columns[c].Default)
	}
	return true
}

// spanFor returns the number of the span of a column, which it makes if there is none. REQUIRES that no step was taken.
func (s *Search) spanFor(column int) int {
	for i := range s.spans {
		if s.spans[i].column == column {
			return i
		}
	}
	s.spans = append(s.spans, span{column: column, hi: math.MaxUint64})
	return len(s.spans) - 1
}

// narrow changes the conditions of span i.
func (s *Search) narrow(i int, lo, hi uint64) {
	s.spans[i].lo, s.spans[i].hi = lo, hi
	if lo > hi {
		s.Over, s.dry = true, true
	}
	for k, of := range s.spanOf {
		if of == i && k < len(s.ranges) {
			s.ranges[k].Lo, s.ranges[k].Hi = lo, hi
		}
	}
}

// Meets tells whether the item mid, whose columns are row, in the order of the counter's, meets the query. REQUIRES Bind.
func Meets(s *Search, mid uint64, row []uint64) bool {
	if s.excluded(mid) {
		return false
	}
	for i, c := range s.tested {
		if !s.spans[i].holds(row[c]) {
			return false
		}
	}
	return true
}

// drop removes excluded items of front.
func (s *Search) drop() {
	if !s.excludes() {
		return
	}
	w, n := s.Front.width, 0
	for i := 0; i < len(s.Front.flat); i += w {
		if !s.excluded(s.Front.flat[i]) {
			n += copy(s.Front.flat[n:], s.Front.flat[i:i+w])
		}
	}
	s.Front.flat = s.Front.flat[:n]
}

// passes tells whether a search without order has nothing to look for in the group that it is in.
func passes(s *Search, b View) bool { return s.hidden(b) || s.covered.Has(s.Ks.Group) }

// hidden tells whether all posts of the keyspace that the search is in are of a group of hash slots that clients may not touch.
func (s *Search) hidden(b View) bool {
	own := b.Owned()
	return len(s.Space) > 1 && own.Some && own.Lacks(s.Ks.Group)
}
