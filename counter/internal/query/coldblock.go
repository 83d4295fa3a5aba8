package query

import (
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
)

// enterCold copies what the overlay of s.Blk, a cold block, has of the query to front, and begins to read its file.
// REQUIRES s.Blk.Mu held; it is unlocked.
func (s *Search) enterCold(b View) error {
	blk := s.Blk
	defer blk.Mu.Unlock()
	b.NoteSeen(blk.Logged)
	if err := blk.Cold.File.Err(); err != nil {
		return s.Damage(s.lo, s.hi, err)
	}
	// Partial rows first: those of pages that can be read again go to the overlay.
	s.bad = s.bad[:0]
	for _, mid := range blk.Cold.PartialMids() {
		if mid < s.lo || mid > s.hi {
			continue
		}
		p, err := s.Ks.Find(blk, mid)
		if err == nil && p.Where == block.InPartial {
			err = s.Item(&s.Front, blk, mid, p)
		}
		if err != nil {
			s.bad = append(s.bad, mid)
		}
	}
	if blk.Tab.Len() > 0 && s.selection(blk) {
		s.Front.flat = blk.Tab.Select(s.Front.flat, 0, blk.Tab.Buckets(), &s.hot)
		s.drop()
	}
	s.sorter.pause = nil // others would wait for the lock
	s.sort()
	s.openFile()
	return nil
}

// openFile begins to read the file of s.Blk, and finds the query's columns in it.
func (s *Search) openFile() {
	file := s.Blk.Cold.File
	meta := file.Meta()
	s.scan, s.pages, s.none = file.PageScan(), 0, false
	s.ranges, s.spanOf = s.ranges[:0], s.spanOf[:0]
	for i, c := range s.tested {
		sp, col := &s.spans[i], &s.Ks.Def.Columns[c]
		if at, ok := meta.Column(col.ID); ok {
			s.ranges = append(s.ranges, coldstore.Range{Col: at, Lo: sp.lo, Hi: sp.hi, Not: sp.not})
			s.spanOf = append(s.spanOf, i)
		} else if !sp.holds(col.Default) {
			s.none = true
		}
	}
	s.fields = s.fields[:0]
	for _, c := range s.wanted {
		at, ok := meta.Column(s.Ks.Def.Columns[c].ID)
		if !ok {
			at = -1
		}
		s.fields = append(s.fields, at)
	}
	for i := range s.ranges {
		r := &s.ranges[i]
		if least, most := file.Bounds(r.Col); r.Lo > most || r.Hi < least {
			s.none = true
		}
	}
	s.none = s.none || file.Pages() == 0
}

// skips tells whether no row of page i can meet the query, as its bounds say.
func (s *Search) skips(file *coldstore.File, i int) bool {
	for k := range s.ranges {
		r := &s.ranges[k]
		if least, most := file.PageBounds(i, r.Col); r.Lo > most || r.Hi < least {
			return true
		}
	}
	return false
}

// nextPage takes the rows of the page of s.Blk's file that at is in, and of front those of the same range: so many, or
// all.
func (s *Search) nextPage(b View, left int) error {
	file := s.Blk.Cold.File
	// A range of mids without a row to read goes with front alone: all of the block, or one page after the other.
	from, to, i := s.lo, s.hi, -1
	if s.Query.Desc {
		to = s.at
	} else {
		from = s.at
	}
	if !s.none {
		i = file.Page(s.at)
		step := 1
		if s.Query.Desc {
			step = -1
		}
		first := i
		end := file.Page(to)
		if s.Query.Desc {
			end = file.Page(from)
		}
		for i != end && s.skips(file, i) { // those behind each other at once
			i += step
		}
		if s.skips(file, i) {
			i = -1 // there was no other
		} else if i != first { // up to the page that is to be read
			if s.Query.Desc {
				from = file.PageStart(i + 1)
			} else {
				to = file.PageStart(i) - 1
			}
			i = -1
		} else {
			if i > 0 {
				from = max(from, file.PageStart(i))
			}
			to = min(to, file.PageStart(i+1)-1)
		}
	}
	s.page.flat = s.page.flat[:0]
	if i >= 0 {
		if err := s.readPage(i, from, to); errors.Is(err, coldstore.ErrClosed) {
			s.Leave() // the block was replaced
			return nil
		} else if err != nil {
			return s.Damage(from, to, err)
		}
	}
	return s.merge(b, from, to, left)
}

// readPage puts the rows of page i with mids from..to that meet the query in page.
func (s *Search) readPage(i int, from, to uint64) error {
	file, scan := s.Blk.Cold.File, s.scan
	last := i // a short look costs one page
	if s.pages > 0 {
		last = s.ahead(file, i)
	}
	if err := scan.Load(i, last); err != nil {
		return err
	}
	s.pages++
	s.Read++
	first, end := 0, scan.Len()
	if from > file.PageStart(i) {
		first = scan.Row(from)
	}
	if to+1 < file.PageStart(i+1) {
		end = scan.Row(to + 1)
	}
	var err error
	if s.sel, err = scan.Select(s.sel[:0], first, end, s.ranges); err != nil || len(s.sel) == 0 {
		return err
	}
	w := s.page.width
	s.page.flat = slices.Grow(s.page.flat, len(s.sel)*w)[:len(s.sel)*w]
	if s.named = !s.bare; s.named {
		if err := scan.Mids(s.page.flat, w, s.sel); err != nil {
			return err
		}
	}
	for k, at := range s.fields {
		if at >= 0 {
			if err := scan.Values(s.page.flat[1+k:], w, at, s.sel); err != nil {
				return err
			}
			continue
		}
		v := s.Ks.Def.Columns[s.wanted[k]].Default
		for n := 1 + k; n < len(s.page.flat); n += w {
			s.page.flat[n] = v
		}
	}
	return nil
}

// ahead returns the last of the pages from i on, in the order of the query, that are going to be read.
func (s *Search) ahead(file *coldstore.File, i int) int {
	const most = 64
	if s.Query.Desc {
		end := max(file.Page(s.lo), i-most)
		for i > end && !s.skips(file, i-1) {
			i--
		}
		return i
	}
	end := min(file.Page(s.hi), i+most)
	for i < end && !s.skips(file, i+1) {
		i++
	}
	return i
}

// merge moves the rows of page, and those of front with mids from..to, to rows: so many, or all, and passes what it
// moved.
func (s *Search) merge(b View, from, to uint64, left int) error {
	if mid, ok := s.doubt(from, to); ok { // up to there
		switch {
		case s.Query.Desc && mid < to:
			from = mid + 1
		case !s.Query.Desc && mid > from:
			to = mid - 1
		default:
			return s.Damage(mid, mid, ErrDamaged)
		}
		if err := s.name(); err != nil {
			return s.Damage(from, to, err)
		}
		w := s.page.width
		for len(s.page.flat) > 0 && s.page.flat[0] < from {
			s.page.flat = s.page.flat[w:]
		}
		for n := len(s.page.flat); n > 0 && s.page.flat[n-w] > to; n -= w {
			s.page.flat = s.page.flat[:n-w]
		}
	}
	n := s.Rows.Len()
	if ok, err := s.mergeRows(b, from, to); !ok {
		s.Rows.cut(n)
		return err
	}
	last := to
	if s.Query.Desc {
		s.Rows.reverse(n)
		last = from
	}
	if s.Rows.Len()-n > left {
		s.Rows.cut(n + left)
		last, _ = s.Rows.At(n + left - 1)
	}
	if !s.Query.Desc && last >= s.hi || s.Query.Desc && last <= s.lo {
		s.done()
	} else {
		s.passTo(last)
	}
	return nil
}

// name puts the mids in the rows of page, if they are not there.
func (s *Search) name() error {
	if s.named || len(s.page.flat) == 0 {
		return nil
	}
	s.named = true
	return s.scan.Mids(s.page.flat, s.page.width, s.sel)
}

// doubt returns the first of the mids from..to, in the order of the query, that is one of bad.
func (s *Search) doubt(from, to uint64) (mid uint64, ok bool) {
	lo, _ := slices.BinarySearch(s.bad, from)
	hi, found := slices.BinarySearch(s.bad, to)
	if found {
		hi++
	}
	if lo >= hi {
		return 0, false
	}
	if s.Query.Desc {
		return s.bad[hi-1], true
	}
	return s.bad[lo], true
}

// mergeRows appends the rows of page and of front with mids from..to, rising, to rows. It answers false where the block
// was replaced, or with an error.
func (s *Search) mergeRows(b View, from, to uint64) (bool, error) {
	blk, rows, w := s.Blk, s.page.flat, s.page.width
	front := s.rest[w*sort.Search(len(s.rest)/w, func(i int) bool { return s.rest[i*w] >= from }):]
	next := func() uint64 {
		if len(front) > 0 && front[0] <= to {
			return front[0]
		}
		return math.MaxUint64
	}
	take := func() {
		s.Rows.flat = append(s.Rows.flat, front[:w]...)
		front = front[w:]
	}
	if len(rows) > 0 {
		blk.Mu.Lock()
		if blk.Dead {
			blk.Mu.Unlock()
			s.Leave()
			return false, nil
		}
		if blk.Tab.Len() == 0 && len(blk.Cold.Partial) == 0 && !s.excludes() && next() == math.MaxUint64 {
			blk.Mu.Unlock() // nearly always
			s.Rows.flat = append(s.Rows.flat, rows...)
			return true, nil
		}
		defer blk.Mu.Unlock()
		b.NoteSeen(blk.Logged)
		if err := s.name(); err != nil {
			return false, s.Damage(from, to, err)
		}
	}
	for ; len(rows) > 0; rows = rows[w:] {
		mid := rows[0]
		for next() < mid {
			take()
		}
		if next() == mid || s.excluded(mid) {
			continue
		}
		if above, err := s.above(mid); err != nil {
			return false, s.Damage(mid, mid, err)
		} else if !above {
			s.Rows.flat = append(s.Rows.flat, rows[:w]...)
		}
	}
	for next() != math.MaxUint64 {
		take()
	}
	return true, nil
}

// above tells whether the overlay, or a partial row, says something of an item of the file, and appends to rows what it
// is then, if it meets the query: it was changed since front was copied, or it would be there. REQUIRES s.Blk.Mu held.
func (s *Search) above(mid uint64) (bool, error) {
	blk := s.Blk
	_, partly := blk.Cold.Partial[mid]
	if !partly {
		if blk.Tab.Len() == 0 {
			return false, nil
		}
		if _, ok := blk.Tab.Find(mid); !ok {
			return false, nil
		}
	}
	p, err := s.Ks.Find(blk, mid)
	if err == nil && p.Found() {
		err = s.Item(&s.Rows, blk, mid, p)
	}
	return true, err
}
