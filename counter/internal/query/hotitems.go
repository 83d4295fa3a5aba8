package query

import (
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
	sorter wordSorter
	desc   bool
	twice  bool     // a mid may be there twice
	heap   int      // the number of the heap that is given out
	rest   []uint64 // items of that heap, sorted, that are not given out yet
	some   []uint64 // a sample
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

// again makes w empty, where an item did not fit a word: the search must look at the block from its first bucket on.
func (w *hotItems) again(t *hot.Table, q *hot.Selection) {
	w.picked.Begin(t, q, true)
	w.spread = false
	w.heaps.empty()
}

// found is how many items were found so far.
func (w *hotItems) found() int { return w.heaps.n + len(w.picked.Words) }

// collect moves the items that were found to the heaps, once there are enough to know the range of their mids, or all are found.
func (w *hotItems) collect(all bool) {
	words := w.picked.Words
	if !w.spread {
		if len(words) < sample && !all {
			return
		}
		w.spread = true
		least, most := w.mostWords(words[:min(len(words), sample)])
		w.heaps.reset(max(w.wanted, len(words)), least, most, w.picked.Low)
	}
	w.heaps.add(words)
	w.picked.Words = words[:0]
}

// mostWords returns bounds of most words: a few that are far from all others must not leave one heap to the others.
func (w *hotItems) mostWords(words []uint64) (least, most uint64) {
	if len(words) < sample {
		return bounds(words)
	}
	w.some = append(w.some[:0], words...)
	slices.Sort(w.some)
	const few = sample / 32
	low, high := w.some[few], w.some[sample-1-few]
	more := (high - low) / 16
	return max(w.some[0], low-min(low, more)), min(w.some[sample-1], high+more)
}

// shorten leaves so many items or a few more, those that come first. It returns the bounds of their mids.
func (w *hotItems) shorten(keep int, lo, hi uint64) (newLo, newHi uint64) {
	w.collect(true)
	least, most := w.picked.Bounds(w.heaps.cut(keep, w.desc))
	return max(lo, least), min(hi, most)
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
		if w.rest = w.sorter.sort(&w.heaps, w.heap, w.picked.Low); w.picked.Wide {
			orderEqual(w.rest, w.picked.Low, w.picked.Compare)
		}
		if w.twice {
			w.rest = w.lastOfMid(w.rest)
		}
		if w.desc {
			slices.Reverse(w.rest)
		}
	}
}

// lastOfMid leaves the last of items with the same mid, which stand behind each other.
func (w *hotItems) lastOfMid(words []uint64) []uint64 {
	n := 0
	for i := range words {
		if i+1 == len(words) || w.picked.Compare(words[i], words[i+1]) != 0 {
			words[n] = words[i]
			n++
		}
	}
	return words[:n]
}

// give moves items to rows: so many, or all of a heap. It tells whether there are more.
func (w *hotItems) give(rows *Rows, left int) (more bool) {
	n := min(left, len(w.rest))
	rows.flat = slices.Grow(rows.flat, rows.width*min(left, len(w.rest)+w.heaps.n)) // and not for each heap
	rows.flat = w.picked.AppendRows(rows.flat, w.rest[:n])
	if w.rest = w.rest[n:]; len(w.rest) == 0 {
		w.next()
	}
	return len(w.rest) > 0
}
