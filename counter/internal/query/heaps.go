package query

import (
	"math/bits"
	"slices"

	"github.com/counterd/counterd/counter/internal/hot"
)

// heaps has the items found in a hot block, parted by their keys: heap 0 has those of the first part of the range where most keys are, and
// all below it, and so on. Items come in any order. A heap is sorted when its rows are given out.
//
//	heap    0          1          2    ...
//	        |          |          |
//	items  [chunk]    [chunk]    [chunk]        chunkItems each: first of the heap, and from each the next
//	        |                     |
//	       [chunk]               [chunk]
//
// The places where the heaps grow stay in the first cache, and so does a heap that is sorted. If all items were sorted as one heap, each
// would be some misses of that cache.
type heaps struct {
	items []hot.Found // chunks
	next  []uint32    // of each chunk, the one behind it in its heap
	first []uint32    // of each heap
	at    []uint32    // of each heap, the place behind its last item; 0: it has none
	n     int         // items
	least uint64      // where heap 0 begins
	shift uint8       // from a key, less least, to the number of its heap
}

const (
	chunkItems = 32
	heapItems  = 512 // about so many are in a heap
	noChunk    = ^uint32(0)
)

// reset makes h empty, for about so many items, most of which have keys from least to most.
func (h *heaps) reset(items int, least, most uint64) {
	h.least, h.shift = least, uint8(min(max(0, bits.Len64(most-least)-bits.Len(uint(items/heapItems))), 63))
	parts := int((most-least)>>h.shift) + 1
	h.n = 0
	h.items, h.next = take(&found, h.items, items+items/8+chunkItems*parts), h.next[:0]
	h.first = slices.Grow(h.first[:0], parts)[:parts]
	h.at = slices.Grow(h.at[:0], parts)[:parts]
	for i := range h.at {
		h.first[i], h.at[i] = noChunk, 0
	}
}

// empty makes h empty, without any heap.
func (h *heaps) empty() { h.n, h.at = 0, h.at[:0] }

// len is the number of heaps.
func (h *heaps) len() int { return len(h.at) }

// add takes items.
func (h *heaps) add(items []hot.Found) {
	h.n += len(items)
	for {
		n := addItems(h, items)
		if n == len(items) {
			return
		}
		i := h.of(items[n].Key)
		end := h.at[i]
		if end%chunkItems == 0 {
			end = h.chunk(i)
		}
		h.items[end], h.at[i] = items[n], end+1
		items = items[n+1:]
	}
}

// addItems adds items until one is outside of the range that was told, or has a heap without room. It returns how many it added.
//
//go:noinline
func addItems(h *heaps, items []hot.Found) int {
	at, to, least, shift := h.at, h.items, h.least, h.shift&63
	for k := range items {
		i := (items[k].Key - least) >> shift
		if i >= uint64(len(at)) {
			return k
		}
		end := at[i]
		if end%chunkItems == 0 {
			return k
		}
		to[end] = items[k]
		at[i] = end + 1
	}
	return len(items)
}

// of returns the number of the heap of a key.
func (h *heaps) of(key uint64) int {
	if key < h.least {
		return 0
	}
	return int(min((key-h.least)>>(h.shift&63), uint64(len(h.at)-1)))
}

// chunk gives heap i, whose chunks are full, one more, and returns its beginning.
func (h *heaps) chunk(i int) uint32 {
	c := uint32(len(h.next))
	h.next = append(h.next, noChunk)
	if end := h.at[i]; end == 0 {
		h.first[i] = c
	} else {
		h.next[end/chunkItems-1] = c
	}
	h.items = slices.Grow(h.items, chunkItems)[:len(h.items)+chunkItems]
	return c * chunkItems
}

// take appends the items of heap i, which is empty then.
func (h *heaps) take(dst []hot.Found, i int) []hot.Found {
	n, last := len(dst), h.at[i]
	dst = slices.Grow(dst, h.size(i))
	for c := h.first[i]; c != noChunk; c = h.next[c] {
		from, end := c*chunkItems, (c+1)*chunkItems
		if h.next[c] == noChunk {
			end = last
		}
		dst = append(dst, h.items[from:end]...)
	}
	h.n -= len(dst) - n
	h.first[i], h.at[i] = noChunk, 0
	return dst
}

// size is the number of items in heap i.
func (h *heaps) size(i int) int {
	n := 0
	for c := h.first[i]; c != noChunk; c = h.next[c] {
		if n += chunkItems; h.next[c] == noChunk {
			n -= int((c+1)*chunkItems - h.at[i])
		}
	}
	return n
}

// cut leaves heaps with keep items in all, or a few more: the first ones, or the last. It returns the least key that belongs to the first
// heap left, and the largest that belongs to the last.
func (h *heaps) cut(keep int, last bool) (least, most uint64) {
	from, end, step := 0, h.len(), 1
	if last {
		from, end, step = h.len()-1, -1, -1
	}
	least, most = 0, ^uint64(0)
	items := 0
	for i := from; i != end; i += step {
		if items < keep {
			items += h.size(i)
			if least, most = h.keys(i); last {
				most = ^uint64(0)
			} else {
				least = 0
			}
			continue
		}
		h.first[i], h.at[i] = noChunk, 0
	}
	h.n = items
	return least, most
}

// keys returns the least and the largest key that belong to heap i.
func (h *heaps) keys(i int) (least, most uint64) {
	least, most = 0, ^uint64(0)
	if i > 0 {
		least = h.least + uint64(i)<<(h.shift&63)
	}
	if i+1 < h.len() {
		most = h.least + uint64(i+1)<<(h.shift&63) - 1
	}
	return least, most
}

// bounds returns bounds of the keys of items, which were taken from heap i.
func (h *heaps) bounds(i int, items []hot.Found) (least, most uint64) {
	if 0 < i && i+1 < h.len() {
		return h.keys(i)
	}
	return bounds(items)
}
