package query

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// rowSorter sorts rows by their mids. It keeps its memory.
type rowSorter struct {
	spare []uint64 // rows are moved there, and r.flat becomes spare
	ends  []uint32 // of the parts
	heaps []uint32 // the same of the parts that have parts
	order []placed
	pause func() // while many rows are sorted, for others; nil: nobody waits
}

// placed is a row and its mid.
type placed struct {
	mid uint64
	row uint32
}

const (
	fewRows  = 64   // fewer are sorted as one part
	manyRows = 32   // a part with more is sorted by comparisons of all
	nearRows = 2048 // more are parted twice: rows that are moved to 65,000 places are one miss of the cache each
	heapRows = 256  // about so many are in each of the first parts
	restRows = 4096 // are sorted between two pauses: 60 us
)

// sort makes r rising, with each mid once. Of rows with one mid the last stays.
//
// Mids of a block are spread about evenly: as many parts of their range as there are mids hold about one each. So each row
// is moved to its part, and few are moved again. That takes a third of the time of sorting the mids and fetching the rows
// after them, a tenth of that of comparing all.
func (o *rowSorter) sort(r *Rows) {
	w, n := r.width, r.Len()
	if n < 2 {
		return
	}
	switch {
	case n < fewRows:
		o.sortPart(r.flat, w)
	case n < nearRows:
		to := slices.Grow(o.spare[:0], len(r.flat))[:len(r.flat)]
		o.spread(r.flat, to, w)
		r.flat, o.spare = to, r.flat[:0]
	default:
		to := takeWords(o.spare, len(r.flat))[:len(r.flat)]
		o.heaps = part(o.heaps, r.flat, to, w, n/heapRows)
		begin, rested := 0, 0
		for _, end := range o.heaps[:len(o.heaps)-1] {
			end := int(end) * w
			if o.pause != nil && end-rested > restRows*w {
				rested = begin
				o.pause()
			}
			o.spread(to[begin:end], r.flat[begin:end], w)
			begin = end
		}
		o.spare = to[:0]
	}
	r.flat = lastOfEach(r.flat, w)
}

// spread sorts from into to.
func (o *rowSorter) spread(from, to []uint64, w int) {
	n := len(from) / w
	if n < fewRows {
		copy(to, from)
		o.sortPart(to, w)
		return
	}
	o.ends = part(o.ends, from, to, w, n)
	begin := 0
	for _, end := range o.ends[:len(o.ends)-1] {
		end := int(end) * w
		if end-begin > w {
			o.sortPart(to[begin:end], w)
		}
		begin = end
	}
}

// words has the memory of rows of searches that have ended. New memory is cleared, and moved while it grows: a fifth of the time of a search
// that finds all items of a block. The collector frees what nobody takes within two of its cycles.
var words sync.Pool

// takeWords returns room for n words: that of b, of a search that has ended, or new one.
func takeWords(b []uint64, n int) []uint64 {
	if cap(b) >= n {
		return b[:0]
	}
	if old, _ := words.Get().(*[]uint64); old != nil && cap(*old) >= n {
		return (*old)[:0]
	}
	return slices.Grow(b[:0], n)
}

// giveWords gives the memory of b back. Nobody may use it any more.
func giveWords(b []uint64) {
	if cap(b) >= nearRows {
		b = b[:0]
		words.Put(&b)
	}
}

// part moves the rows of from to about so many parts of to, in which they keep their order. The result is the end of each part, and one
// number more. It has the memory of ends.
func part(ends []uint32, from, to []uint64, w, parts int) []uint32 {
	least, most := from[0], from[0]
	for i := 0; i < len(from); i += w {
		least, most = min(least, from[i]), max(most, from[i])
	}
	shift := max(0, bits.Len64(most-least)-bits.Len(uint(parts)))
	parts = int((most-least)>>shift) + 1
	ends = slices.Grow(ends[:0], parts+1)[:parts+1]
	clear(ends)
	for i := 0; i < len(from); i += w {
		ends[(from[i]-least)>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	if w == 4 { // three columns: the copy is two moves
		for ; len(from) >= 4; from = from[4:] {
			row := (*[4]uint64)(from)
			end := &ends[(row[0]-least)>>shift]
			*(*[4]uint64)(to[int(*end)*4:]) = *row
			*end++
		}
		return ends
	}
	for i := 0; i < len(from); i += w {
		row := from[i : i+w : i+w]
		end := &ends[(row[0]-least)>>shift]
		at := to[int(*end)*w:][:w:w]
		*end++
		for k := range at { // shorter than a call that copies
			at[k] = row[k]
		}
	}
	return ends
}

// sortPart sorts rows of w words. Equal ones keep their order.
func (o *rowSorter) sortPart(rows []uint64, w int) {
	if len(rows) > manyRows*w {
		o.sortUneven(rows, w)
		return
	}
	for i := w; i < len(rows); i += w {
		j := i
		for j > 0 && rows[j-w] > rows[i] {
			j -= w
		}
		for ; j < i; j += w { // the row goes to j, and those from there on move up
			for k := range w {
				rows[j+k], rows[i+k] = rows[i+k], rows[j+k]
			}
		}
	}
}

// sortUneven is sortPart for mids that are not spread evenly.
func (o *rowSorter) sortUneven(rows []uint64, w int) {
	o.order = o.order[:0]
	for i := 0; i < len(rows); i += w {
		o.order = append(o.order, placed{rows[i], uint32(i)})
	}
	slices.SortFunc(o.order, func(a, b placed) int { return cmp.Or(cmp.Compare(a.mid, b.mid), cmp.Compare(a.row, b.row)) })
	unsorted := slices.Clone(rows)
	for i, p := range o.order {
		copy(rows[i*w:][:w], unsorted[p.row:])
	}
}

// lastOfEach leaves of rows with the same mid, which stand behind each other, the last.
func lastOfEach(rows []uint64, w int) []uint64 {
	n := 0
	for i := 0; i < len(rows); i += w {
		if i+w < len(rows) && rows[i+w] == rows[i] {
			continue
		}
		if n < i {
			copy(rows[n:n+w], rows[i:i+w])
		}
		n += w
	}
	return rows[:n]
}
