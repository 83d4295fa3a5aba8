package coldstore

import (
	"slices"
	"sync"

	"github.com/counterd/counterd/coldstore/page"
)

// PageScan reads pages of a file and finds the rows in them that meet conditions, whole columns at a time: of a page
// where no row does, nothing but the columns of the conditions is decoded, and of these mostly the rows that differ
// from the common one. Rows are numbered from 0 in their page.
//
// Not safe for concurrent use. It allocates nothing once it has seen the largest page.
type PageScan struct {
	scanner
	view page.View
	n    int // rows

	// Of the present page, as far as decoded.
	live   []int32 // rows that differ from the common one
	lively bool
	mids   []uint64
	midsOK bool
	column []scanColumn

	ladder page.LadderDecoder
	sel    []int32  // scratch
	vals   []uint64 // scratch
}

// scanColumn is a column of a page, all its rows.
type scanColumn struct {
	vals  []uint64
	known bool // vals are this page's
}

// fewRows: it is cheaper to read so many times fewer values one by one than to decode all.
const fewRows = 16

var pageScans = sync.Pool{New: func() any { return new(PageScan) }}

// PageScan begins a scan. Close ends it.
func (f *File) PageScan() *PageScan {
	s := pageScans.Get().(*PageScan)
	s.f, s.from, s.to, s.n = f, 0, 0, 0
	s.column = slices.Grow(s.column[:0], len(f.h.meta.Columns))[:len(f.h.meta.Columns)]
	return s
}

// Close gives the memory back, to the next scan.
func (s *PageScan) Close() {
	s.closeFile()
	pageScans.Put(s)
}

// Load makes page i the present one. Pages up to last, which may lie before i, are going to be asked for next. Errors
// concern that page: CorruptError, UnreadableError; or ErrClosed.
func (s *PageScan) Load(i, last int) error {
	s.n = 0
	if s.f.broken != nil {
		return s.f.broken
	}
	b, err := s.bytes(i, last)
	if err != nil {
		return err
	}
	if bad := s.view.Parse(b, len(s.f.h.meta.Columns)); bad != "" {
		return s.f.badPage(i, bad)
	}
	s.i, s.n, s.lively, s.midsOK = i, s.view.N, false, false
	for c := range s.column {
		s.column[c].known = false
	}
	return nil
}

// Len is the number of rows in the page.
func (s *PageScan) Len() int { return s.n }

// Row is the number of the first row with a mid of at least mid.
func (s *PageScan) Row(mid uint64) int {
	i, _ := s.view.Mids.Search(s.view.B, mid)
	return min(i, s.n)
}

// rowsLive decodes live.
func (s *PageScan) rowsLive() bool {
	if s.lively {
		return true
	}
	s.live, s.lively = s.view.Set.Positions(s.live[:0], s.view.B)
	return s.lively
}

// all returns the values of a column of all rows.
func (s *PageScan) all(col int) ([]uint64, bool) {
	x := &s.column[col]
	if x.known {
		return x.vals, true
	}
	x.vals = slices.Grow(x.vals[:0], s.n)[:s.n]
	if s.view.Presence == 0 {
		c := s.view.Part(col)
		x.known = s.ladder.Decode(x.vals, &c)
		return x.vals, x.known
	}
	if !s.rowsLive() {
		return nil, false
	}
	common, ok := s.stored(col)
	if !ok {
		return nil, false
	}
	for i := range x.vals {
		x.vals[i] = common
	}
	for k, row := range s.live {
		x.vals[row] = s.vals[k]
	}
	x.known = true
	return x.vals, true
}

// Select appends the numbers of the rows in [from, to) that meet all conditions.
func (s *PageScan) Select(dst []int32, from, to int, conditions []page.Range) ([]int32, error) {
	if from >= to {
		return dst, nil
	}
	if len(conditions) == 0 {
		for i := from; i < to; i++ {
			dst = append(dst, int32(i))
		}
		return dst, nil
	}
	var bad string
	switch {
	case s.view.Presence == 0:
		dst, bad = s.selectAll(dst, from, to, conditions)
	case !s.rowsLive():
		bad = page.PartPresence
	default:
		dst, bad = s.selectLive(dst, from, to, conditions)
	}
	return dst, s.f.badPage(s.i, bad)
}

// selectAll is Select in a page whose columns have a value for each row.
func (s *PageScan) selectAll(dst []int32, from, to int, conditions []page.Range) ([]int32, string) {
	sel, bad := s.amongStored(s.n, conditions)
	if bad != "" {
		return dst, bad
	}
	first, last := 0, len(sel)
	if from > 0 {
		first, _ = slices.BinarySearch(sel, int32(from))
	}
	if to < s.n {
		last, _ = slices.BinarySearch(sel, int32(to))
	}
	return append(dst, sel[first:last]...), ""
}

// amongStored returns the numbers of the n values that the columns store that meet all conditions.
func (s *PageScan) amongStored(n int, conditions []page.Range) (sel []int32, bad string) {
	sel = s.sel[:0]
	for i := range conditions {
		r := &conditions[i]
		c := s.view.Part(r.Col)
		if s.view.Presence != 0 {
			c.Uvarint()
		}
		ok := true
		switch {
		case i == 0:
			sel, ok = s.ladder.Among(sel, &c, n, r)
		case len(sel)*fewRows < n:
			k := 0
			for _, row := range sel {
				one := c
				if v := page.LadderGet(&one, n, int(row)); r.Holds(v) {
					sel[k] = row
					k++
				}
				ok = ok && !one.Bad
			}
			sel = sel[:k]
		default:
			s.vals = slices.Grow(s.vals[:0], n)[:n]
			if ok = s.ladder.Decode(s.vals, &c); ok {
				sel = r.Refine(sel, 0, s.vals)
			}
		}
		if s.sel = sel; !ok || c.Bad {
			return nil, page.PartColumn
		}
	}
	return sel, ""
}

// selectLive is Select in a page whose columns have values for the live rows only.
func (s *PageScan) selectLive(dst []int32, from, to int, conditions []page.Range) ([]int32, string) {
	common := true
	for i := range conditions {
		c := s.view.Part(conditions[i].Col)
		common = common && conditions[i].Holds(c.Uvarint())
	}
	sel, bad := s.amongStored(len(s.live), conditions)
	if bad != "" {
		return dst, bad
	}
	if !common {
		for _, k := range sel {
			if row := int(s.live[k]); row >= from && row < to {
				dst = append(dst, int32(row))
			}
		}
		return dst, ""
	}
	row, k := from, 0
	first, _ := slices.BinarySearch(s.live, int32(from))
	for l := first; l < len(s.live) && int(s.live[l]) < to; l++ {
		p := int(s.live[l])
		for ; row < p; row++ {
			dst = append(dst, int32(row))
		}
		for k < len(sel) && int(sel[k]) < l {
			k++
		}
		if k < len(sel) && int(sel[k]) == l {
			dst = append(dst, int32(p))
		}
		row = p + 1
	}
	for ; row < to; row++ {
		dst = append(dst, int32(row))
	}
	return dst, ""
}

// Mids stores the mids of the rows of sel, which rise, stride apart in dst.
func (s *PageScan) Mids(dst []uint64, stride int, sel []int32) error {
	if !s.midsOK && len(sel)*8 < s.n && s.view.Mids.Kind == page.MidsEF {
		if !s.view.Mids.DecodeSome(dst, stride, s.view.B, sel) {
			return s.f.badPage(s.i, page.PartMids)
		}
		s.view.Mids.Posts(dst, stride, len(sel))
		return nil
	}
	if !s.midsOK && len(sel) == s.n && s.view.Mids.Kind == page.MidsEF {
		if !s.view.Mids.Ef.Decode(dst, stride, s.n, s.view.B, s.view.Mids.First, s.view.Mids.Step) {
			return s.f.badPage(s.i, page.PartMids)
		}
		s.view.Mids.Posts(dst, stride, s.n)
		return nil
	}
	if !s.midsOK {
		s.mids = slices.Grow(s.mids[:0], s.n)[:s.n]
		if s.midsOK = s.view.Mids.Decode(s.mids, s.view.B); !s.midsOK {
			return s.f.badPage(s.i, page.PartMids)
		}
		s.view.Mids.Posts(s.mids, 1, s.n)
	}
	for k, row := range sel {
		dst[k*stride] = s.mids[row]
	}
	return nil
}

// Values stores the values of a column of the rows of sel, which rise, stride apart in dst.
func (s *PageScan) Values(dst []uint64, stride, col int, sel []int32) error {
	if len(sel) == 0 {
		return nil
	}
	if !s.column[col].known && len(sel)*fewRows < s.n {
		return s.someValues(dst, stride, col, sel)
	}
	if s.view.Presence != 0 && !s.column[col].known && int(sel[len(sel)-1]-sel[0]) == len(sel)-1 {
		return s.runValues(dst, stride, col, sel)
	}
	vals, ok := s.all(col)
	if !ok {
		return s.f.badPage(s.i, page.PartColumn)
	}
	for k, row := range sel {
		dst[k*stride] = vals[row]
	}
	return nil
}

// runValues is Values of rows that follow each other, of which most are the common one.
func (s *PageScan) runValues(dst []uint64, stride, col int, sel []int32) error {
	if !s.rowsLive() {
		return s.f.badPage(s.i, page.PartPresence)
	}
	common, ok := s.stored(col)
	if !ok {
		return s.f.badPage(s.i, page.PartColumn)
	}
	n := len(sel) * stride
	for at := 0; at < n; at += stride {
		dst[at] = common
	}
	first, l := int(sel[0]), len(sel)
	for k, row := range s.live {
		if i := int(row) - first; uint(i) < uint(l) {
			dst[i*stride] = s.vals[k]
		}
	}
	return nil
}

// stored decodes the values that a column has for the live rows, to vals, and returns that of the others.
func (s *PageScan) stored(col int) (common uint64, ok bool) {
	c := s.view.Part(col)
	common = c.Uvarint()
	m := len(s.live)
	s.vals = slices.Grow(s.vals[:0], m)[:m]
	return common, !c.Bad && s.ladder.Decode(s.vals, &c)
}

// someValues is Values of few rows.
func (s *PageScan) someValues(dst []uint64, stride, col int, sel []int32) error {
	c := s.view.Part(col)
	if s.view.Presence == 0 {
		for k, row := range sel {
			one := c
			dst[k*stride] = page.LadderGet(&one, s.n, int(row))
			c.Bad = c.Bad || one.Bad
		}
	} else {
		if !s.rowsLive() {
			return s.f.badPage(s.i, page.PartPresence)
		}
		common, l := c.Uvarint(), 0
		for k, row := range sel {
			next, live := slices.BinarySearch(s.live[l:], row)
			l += next
			v := common
			if live {
				one := c
				v = page.LadderGet(&one, len(s.live), l)
				c.Bad = c.Bad || one.Bad
			}
			dst[k*stride] = v
		}
	}
	if c.Bad {
		return s.f.badPage(s.i, page.PartColumn)
	}
	return nil
}

// Range is a condition on a column: see PageScan.
type Range = page.Range
