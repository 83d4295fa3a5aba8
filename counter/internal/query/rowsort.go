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
	heaps heaps    // a word of each row: the mid, less the least one, and the row's number
	some  []uint64
	inner wordSorter
	pause func() // while many rows are sorted, for others; nil: nobody waits
}

const (
	fewRows  = 64   // fewer are sorted as one part
	restRows = 4096 // are sorted between two pauses: 60 us
)

// sort makes r rising, with each mid once. Of rows with one mid the last stays.
//
// A word of each row is sorted, and rows are moved once. Where mids are far from each other, words lack their lowest bits.
func (o *rowSorter) sort(r *Rows) {
	w, n := r.width, r.Len()
	if n < 2 {
		return
	}
	if n < fewRows {
		insertRows(r.flat, w)
		r.flat = lastOfEach(r.flat, w)
		return
	}
	least, most := r.flat[0], r.flat[0]
	for i := 0; i < len(r.flat); i += w {
		least, most = min(least, r.flat[i]), max(most, r.flat[i])
	}
	low := uint(bits.Len(uint(n)))
	cut := uint(max(0, bits.Len64(most-least)+int(low)-wordBits))
	o.heaps.reset(n, 0, (most-least)>>cut<<low, low)
	for i := 0; i < n; i += restRows {
		if i > 0 {
			o.rest()
		}
		o.some = slices.Grow(o.some[:0], min(n, restRows))
		for k := i; k < min(n, i+restRows); k++ {
			o.some = append(o.some, (r.flat[k*w]-least)>>cut<<low|uint64(k))
		}
		o.heaps.add(o.some)
	}
	number := uint64(1)<<low - 1
	to := take(&rowMemory, o.spare, len(r.flat))
	rested := 0
	for i := range o.heaps.len() {
		some := o.inner.sort(&o.heaps, i, low)
		if cut > 0 {
			orderEqual(some, low, func(a, b uint64) int { return cmp.Compare(r.flat[int(a&number)*w], r.flat[int(b&number)*w]) })
		}
		to = appendRows(to, r.flat, w, some, number)
		if len(to)-rested >= restRows*w && i+1 < o.heaps.len() {
			rested = len(to)
			o.rest()
		}
	}
	r.flat, o.spare = lastOfEach(to, w), r.flat[:0]
}

// rest lets others have their turn.
func (o *rowSorter) rest() {
	if o.pause != nil {
		o.pause()
	}
}

// appendRows appends the rows whose numbers words have in the bits of number.
func appendRows(dst, rows []uint64, w int, words []uint64, number uint64) []uint64 {
	n := len(dst)
	dst = dst[:n+w*len(words)]
	to := dst[n:]
	if w == 4 { // three columns: the copy is two moves
		for _, word := range words {
			row := *(*[4]uint64)(rows[word&number*4:])
			*(*[4]uint64)(to) = row
			to = to[4:]
		}
		return dst
	}
	for _, word := range words {
		row := rows[int(word&number)*w:][:w]
		at := to[:w]
		for k := range at { // shorter than a call that copies
			at[k] = row[k]
		}
		to = to[w:]
	}
	return dst
}

// Memory of searches that have ended. New memory is cleared, and moved while it grows: a fifth of the time of a search that finds all items of
// a block.
var (
	rowMemory  slicepool.Pool[uint64]
	heapMemory slicepool.Pool[uint64]
)

// take returns room for n elements: that of b, of a search that has ended, or new one.
func take[T any](pool *slicepool.Pool[T], b []T, n int) []T {
	if cap(b) >= n {
		return b[:0]
	}
	if old := pool.Take(n); old != nil {
		return old
	}
	return slices.Grow(b[:0], n)
}

// give gives the memory of b back.
func give[T any](pool *slicepool.Pool[T], b *[]T) {
	if cap(*b) >= restRows {
		pool.Give(*b)
	}
	*b = nil
}

// leaveMemory leaves the memory of s, which has left its block, for later searches.
func leaveMemory(s *Search) {
	give(&rowMemory, &s.Front.flat)
	give(&rowMemory, &s.sorter.spare)
	give(&heapMemory, &s.sorter.heaps.words)
	giveItems(&s.items)
}

// insertRows sorts a few rows of w words. Equal ones keep their order.
func insertRows(rows []uint64, w int) {
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
