package query

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/counterd/counterd/internal/slicepool"
)

// rowSorter sorts rows by their mids. It keeps its memory.
type rowSorter struct {
	spare []uint64 // rows are moved there, and r.flat becomes spare
	heaps heaps    // a word of each row: the mid, and the row's number
	some  []uint64 // such words
	inner wordSorter
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
	restRows = 4096 // are sorted between two pauses: 60 us
	rowBits  = 22   // of the number of a row
)

// sort makes r rising, with each mid once. Of rows with one mid the last stays.
//
// A word of each row is sorted, with the row's number, and rows are moved once.
func (o *rowSorter) sort(r *Rows) {
	w, n := r.width, r.Len()
	if n < 2 {
		return
	}
	if n < fewRows || n >= 1<<rowBits {
		o.sortPart(r.flat, w)
		r.flat = lastOfEach(r.flat, w)
		return
	}
	least, most := r.flat[0], r.flat[0]
	for i := 0; i < len(r.flat); i += w {
		least, most = min(least, r.flat[i]), max(most, r.flat[i])
	}
	keys := bits.Len64(most - least)
	low := max(0, keys-(64-rowBits)) // bits of the mid that the word has no room for
	o.heaps.reset(n, uint8(keys-low), rowBits)
	o.some = slices.Grow(o.some[:0], restRows)
	for i := 0; i < n; i += restRows {
		if i > 0 {
			o.rest()
		}
		o.some = o.some[:0]
		for k := i; k < min(n, i+restRows); k++ {
			o.some = append(o.some, (r.flat[k*w]-least)>>(low&63)<<rowBits|uint64(k))
		}
		o.heaps.add(o.some)
	}
	to := takeWords(o.spare, len(r.flat))
	rested := 0
	for i := range o.heaps.len() {
		o.some = o.inner.sort(o.heaps.take(o.some[:0], i))
		to = appendRows(to, r.flat, w, o.some)
		if len(to)-rested >= restRows*w && i+1 < o.heaps.len() {
			rested = len(to)
			o.rest()
		}
	}
	if low > 0 {
		o.sortNear(to, w, least, low)
	}
	r.flat, o.spare = lastOfEach(to, w), r.flat[:0]
}

// rest lets others have their turn.
func (o *rowSorter) rest() {
	if o.pause != nil {
		o.pause()
	}
}

// appendRows appends the rows whose numbers are in words.
func appendRows(dst, rows []uint64, w int, words []uint64) []uint64 {
	n := len(dst)
	dst = dst[:n+w*len(words)]
	to := dst[n:]
	if w == 4 { // three columns: the copy is two moves
		for _, word := range words {
			row := *(*[4]uint64)(rows[word&(1<<rowBits-1)*4:])
			*(*[4]uint64)(to) = row
			to = to[4:]
		}
		return dst
	}
	for _, word := range words {
		row := rows[int(word&(1<<rowBits-1))*w:][:w]
		at := to[:w]
		for k := range at { // shorter than a call that copies
			at[k] = row[k]
		}
		to = to[w:]
	}
	return dst
}

// sortNear sorts rows that are sorted but for the low bits of their mids less least: those of the mids themselves may carry elsewhere.
func (o *rowSorter) sortNear(rows []uint64, w int, least uint64, low int) {
	for len(rows) > 0 {
		end, high := w, (rows[0]-least)>>(low&63)
		for end < len(rows) && (rows[end]-least)>>(low&63) == high {
			end += w
		}
		if end > w {
			o.sortPart(rows[:end], w)
		}
		rows = rows[end:]
	}
}

// words has the memory of rows of searches that have ended. New memory is cleared, and moved while it grows: a fifth of the time of a search
// that finds all items of a block.
var words slicepool.Pool[uint64]

// takeWords returns room for n words: that of b, of a search that has ended, or new one.
func takeWords(b []uint64, n int) []uint64 {
	if cap(b) >= n {
		return b[:0]
	}
	if old := words.Take(n); old != nil {
		return old
	}
	return slices.Grow(b[:0], n)
}

// giveWords gives the memory of b back.
func giveWords(b *[]uint64) {
	if cap(*b) >= restRows {
		words.Give(*b)
	}
	*b = nil
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
