package query

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slicepool"
)

// rowSorter sorts rows by their mids. It keeps its memory.
type rowSorter struct {
	spare []uint64 // rows are moved there, and r.flat becomes spare
	heaps heaps    // an item of each row: the mid, and the row's number in the place of columns
	some  []hot.Found
	inner itemSorter
	pause func() // while many rows are sorted, for others; nil: nobody waits
}

const (
	fewRows  = 64   // fewer are sorted as one part
	restRows = 4096 // are sorted between two pauses: 60 us
)

// sort makes r rising, with each mid once. Of rows with one mid the last stays.
//
// An item of each row is sorted, with the row's number, and rows are moved once.
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
	o.heaps.reset(n, least, most)
	for i := 0; i < n; i += restRows {
		if i > 0 {
			o.rest()
		}
		o.some = slices.Grow(o.some[:0], min(n, restRows))
		for k := i; k < min(n, i+restRows); k++ {
			o.some = append(o.some, hot.Found{Key: r.flat[k*w], Columns: uint64(k)})
		}
		o.heaps.add(o.some)
	}
	to := take(&words, o.spare, len(r.flat))
	rested := 0
	for i := range o.heaps.len() {
		o.some = o.heaps.take(o.some[:0], i)
		least, most := o.heaps.bounds(i, o.some)
		o.some = o.inner.sort(o.some, least, most)
		to = appendRows(to, r.flat, w, o.some)
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

// appendRows appends the rows whose numbers items have.
func appendRows(dst, rows []uint64, w int, items []hot.Found) []uint64 {
	n := len(dst)
	dst = dst[:n+w*len(items)]
	to := dst[n:]
	if w == 4 { // three columns: the copy is two moves
		for i := range items {
			row := *(*[4]uint64)(rows[items[i].Columns*4:])
			*(*[4]uint64)(to) = row
			to = to[4:]
		}
		return dst
	}
	for i := range items {
		row := rows[int(items[i].Columns)*w:][:w]
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
	words slicepool.Pool[uint64]    // of rows
	found slicepool.Pool[hot.Found] // of heaps
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
	give(&words, &s.Front.flat)
	give(&words, &s.sorter.spare)
	give(&found, &s.sorter.heaps.items)
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
