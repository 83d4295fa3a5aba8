package query

import (
	"math"
	"slices"
	"sync"

	"github.com/counterd/counterd/counter/internal/hot"
)

// hotItems has the items that a search found in a hot block, as they are packed there.
type hotItems struct {
	on     bool // the items are here, and not in front
	picked hot.Picked
	heaps  heaps
	spread bool // heaps has its parts
	wanted int  // about so many items will be found
	sorter itemSorter
	desc   bool
	twice  bool        // a mid may be there twice
	heap   int         // the number of the heap that is given out
	rest   []hot.Found // items of that heap, sorted, that are not given out yet
	memory []hot.Found // that of rest
	keys   []uint64    // of a sample
}

// hotItemsOf has the memory of searches that have ended.
var hotItemsOf = sync.Pool{New: func() any { return new(hotItems) }}

// giveItems gives the memory of a search that has ended back.
func giveItems(w **hotItems) {
	if *w != nil {
		hotItemsOf.Put(*w)
		*w = nil
	}
}

// used tells whether the items that were found are in w, and not in front. w may be nil.
func (w *hotItems) used() bool { return w != nil && w.on }

// leave ends the use of w, which may be nil.
func (w *hotItems) leave() {
	if w != nil {
		w.on, w.rest = false, nil
	}
}

// sample is how many items say where the mids of a block are, so that heaps have about as many items each. Items are found in the order of a
// hash: the first ones are anywhere in the block.
const sample = 256

// begin makes w empty. About so many items will be found.
func (w *hotItems) begin(items int, desc bool) {
	w.spread, w.wanted, w.desc = false, items, desc
	w.heaps.empty()
}

// found is how many items were found so far.
func (w *hotItems) found() int { return w.heaps.n + len(w.picked.Items) }

// collect moves the items that were found to the heaps, once there are enough to know the range of their mids, or all are found.
func (w *hotItems) collect(all bool) {
	items := w.picked.Items
	if !w.spread {
		if len(items) < sample && !all {
			return
		}
		w.spread = true
		least, most := w.mostKeys(items[:min(len(items), sample)])
		w.heaps.reset(max(w.wanted, len(items)), least, most)
	}
	w.heaps.add(items)
	w.picked.Items = items[:0]
}

// mostKeys returns bounds of the keys of most items: a few that are far from all others must not leave one heap to the others.
func (w *hotItems) mostKeys(items []hot.Found) (least, most uint64) {
	if len(items) < sample {
		return bounds(items)
	}
	w.keys = w.keys[:0]
	for i := range items {
		w.keys = append(w.keys, items[i].Key)
	}
	slices.Sort(w.keys)
	const few = sample / 32
	low, high := w.keys[few], w.keys[sample-1-few]
	more := (high - low) / 16
	return max(w.keys[0], low-min(low, more)), min(w.keys[sample-1], high+more)
}

// shorten leaves so many items or a few more, those that come first. It returns the bounds of their mids.
func (w *hotItems) shorten(keep int, lo, hi uint64) (newLo, newHi uint64) {
	w.collect(true)
	least, most := w.heaps.cut(keep, w.desc)
	if w.desc {
		if least > 0 {
			lo = max(lo, w.picked.Mid(least))
		}
		return lo, hi
	}
	if most != math.MaxUint64 {
		hi = min(hi, w.picked.Mid(most))
	}
	return lo, hi
}

// open begins to give items out. twice says that a mid may be there twice.
func (w *hotItems) open(twice bool) {
	w.twice, w.heap = twice, -1
	if w.desc {
		w.heap = w.heaps.len()
	}
	w.next()
}

// next makes rest the items of the next heap that is not empty.
func (w *hotItems) next() {
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
		least, most := w.heaps.bounds(w.heap, w.memory)
		w.memory = w.sorter.sort(w.memory, least, most)
		if w.rest = w.memory; w.twice {
			w.rest = lastOfKey(w.rest)
		}
	}
}

// lastOfKey leaves the last of items with the same key, which stand behind each other.
func lastOfKey(items []hot.Found) []hot.Found {
	n := 0
	for i := range items {
		if i+1 == len(items) || items[i+1].Key != items[i].Key {
			items[n] = items[i]
			n++
		}
	}
	return items[:n]
}

// give moves items to rows: so many, or all of a heap. It tells whether there are more.
func (w *hotItems) give(rows *Rows, left int) (more bool) {
	n := min(left, len(w.rest))
	rows.flat = slices.Grow(rows.flat, rows.width*min(left, len(w.rest)+w.heaps.n)) // and not for each heap
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
