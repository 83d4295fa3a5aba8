package query

import (
	"math"

	"github.com/counterd/counterd/counter/internal/hot"
)

// inWords has the items that a search found in a hot block whose items fit words, as those of most blocks do.
type inWords struct {
	on     bool // the items are here, and not in front
	picked hot.Picked
	heaps  heaps
	sorter wordSorter
	desc   bool
	twice  bool     // a mid may be there twice
	heap   int      // the number of the heap that is given out
	rest   []uint64 // words of that heap, sorted, that are not given out yet
	memory []uint64 // that of rest
}

// shorten leaves so many items or a few more, those that come first. It returns the bounds of their mids.
func (w *inWords) shorten(keep int, lo, hi uint64) (newLo, newHi uint64) {
	least, most := w.heaps.cut(keep, w.desc)
	if w.desc {
		return max(lo, w.picked.Mid(least)), hi
	}
	if most != math.MaxUint64 {
		hi = min(hi, w.picked.Mid(most))
	}
	return lo, hi
}

// open begins to give items out. twice says that a mid may be there twice.
func (w *inWords) open(twice bool) {
	w.twice, w.heap = twice, -1
	if w.desc {
		w.heap = w.heaps.len()
	}
	w.next()
}

// next makes rest the words of the next heap that is not empty.
func (w *inWords) next() {
	w.rest = nil
	step := 1
	if w.desc {
		step = -1
	}
	for w.heaps.n > 0 && len(w.rest) == 0 {
		w.heap += step
		w.memory = w.heaps.take(w.memory[:0], w.heap)
		if len(w.memory) == 0 {
			continue
		}
		w.memory = w.sorter.sort(w.memory)
		if w.rest = w.memory; w.twice {
			w.rest = w.picked.Unique(w.rest)
		}
	}
}

// give moves items to rows: so many, or all of a heap. It tells whether there are more.
func (w *inWords) give(rows *Rows, left int) (more bool) {
	n := min(left, len(w.rest))
	if w.desc {
		from, rest := rows.Len(), len(w.rest)-n
		rows.flat = w.picked.AppendRows(rows.flat, w.rest[rest:])
		rows.reverse(from)
		w.rest = w.rest[:rest]
	} else {
		rows.flat = w.picked.AppendRows(rows.flat, w.rest[:n])
		w.rest = w.rest[n:]
	}
	if len(w.rest) == 0 {
		w.next()
	}
	return len(w.rest) > 0
}
