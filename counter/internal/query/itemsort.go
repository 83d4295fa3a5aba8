package query

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/counterd/counterd/counter/internal/hot"
)

// itemSorter sorts items by their keys. Those with the same key keep their order. It keeps its memory.
type itemSorter struct {
	spare []hot.Found
	ends  []uint32 // of the parts
}

// sort returns items in rising order, in their memory or other memory. The sorter keeps the memory that it does not return. All keys are from
// least to most.
//
// Keys are spread about evenly: as many parts of their range as there are items hold about one each. So each item is moved to its part, and
// few are moved again.
func (o *itemSorter) sort(items []hot.Found, least, most uint64) []hot.Found {
	n := len(items)
	if n >= fewRows {
		shift := max(0, bits.Len64(most-least)-bits.Len(uint(n))) & 63
		parts := int((most-least)>>shift) + 1
		o.ends = slices.Grow(o.ends[:0], parts+1)[:parts+1]
		clear(o.ends)
		countParts(o.ends, items, least, shift)
		sumParts(o.ends)
		to := slices.Grow(o.spare[:0], n)[:n]
		moveToParts(to, o.ends, items, least, shift)
		items, o.spare = to, items[:0]
	}
	if !insertItems(items) { // they are not spread evenly
		slices.SortStableFunc(items, func(a, b hot.Found) int { return cmp.Compare(a.Key, b.Key) })
	}
	return items
}

// The loops of sort are functions of their own, as each needs all registers.

// bounds returns the least and the largest key of items.
//
//go:noinline
func bounds(items []hot.Found) (least, most uint64) {
	least = ^uint64(0)
	for i := range items {
		least, most = min(least, items[i].Key), max(most, items[i].Key)
	}
	return least, most
}

// countParts adds the number of items in part i to ends[i+1].
//
//go:noinline
func countParts(ends []uint32, items []hot.Found, least uint64, shift int) {
	for i := range items {
		ends[(items[i].Key-least)>>(shift&63)+1]++
	}
}

// sumParts makes ends[i] the beginning of part i, of the numbers of items in the parts before.
//
//go:noinline
func sumParts(ends []uint32) {
	end := uint32(0)
	for i, in := range ends {
		end += in
		ends[i] = end
	}
}

// moveToParts moves items to their parts, of which ends has the beginnings, and then the ends.
//
//go:noinline
func moveToParts(to []hot.Found, ends []uint32, items []hot.Found, least uint64, shift int) {
	for i := range items {
		end := &ends[(items[i].Key-least)>>(shift&63)]
		to[*end] = items[i]
		*end++
	}
}

// insertItems sorts items that are nearly sorted. Where they are not, it gives up and returns false.
//
//go:noinline
func insertItems(items []hot.Found) bool {
	last, left := uint64(0), max(fewRows*fewRows/2, 8*len(items))
	for i := range items {
		key := items[i].Key
		if key >= last {
			last = key
			continue
		}
		item, j := items[i], i
		for j > 0 && items[j-1].Key > key {
			items[j] = items[j-1]
			j--
		}
		items[j] = item
		if left -= i - j; left < 0 {
			return false
		}
	}
	return true
}
