package query

import (
	"math/bits"
	"slices"
)

// heaps has words of wordBits, each of which is a key above low bits for its item. They are parted by their keys: heap 0 has those of the
// first part of the range where most keys are, and all below it, and so on. Words come in any order. A heap is sorted when its rows are given
// out.
//
//	heap    0          1          2    ...
//	        |          |          |
//	words  [chunk]    [chunk]    [chunk]        chunkWords each: first of the heap, and from each the next
//	        |                     |
//	       [chunk]               [chunk]
//
// The places where the heaps grow stay in the first cache, and so does a heap that is sorted. If all words were sorted as one heap, each
// would be some misses of that cache.
type heaps struct {
	words []uint64 // chunks
	next  []uint32 // of each chunk, the one behind it in its heap
	first []uint32 // of each heap
	at    []uint32 // of each heap, the place behind its last word; 0: it has none
	n     int      // words
	least uint64   // where heap 0 begins
	shift uint8    // from a word, less least, to the number of its heap
}

const (
	wordBits   = 63 // so that a word that is below least is known by the highest bit of the difference
	chunkWords = 128
	heapWords  = 1024 // about so many are in a heap
	noChunk    = ^uint32(0)
)

// reset makes h empty, for about so many words, most of which are from least to most. Words with the same key belong to one heap.
func (h *heaps) reset(words int, least, most uint64, low uint) {
	h.least = least >> low << low
	h.shift = uint8(min(max(int(low), bits.Len64(most-h.least)-bits.Len(uint(words/heapWords))), wordBits-1))
	parts := int((most-h.least)>>h.shift) + 1
	h.n = 0
	h.words, h.next = take(&heapMemory, h.words, words+words/8+chunkWords*parts), h.next[:0]
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

// add takes words.
func (h *heaps) add(words []uint64) {
	h.n += len(words)
	for {
		n := h.addSome(h.least, h.shift&63, words)
		if n == len(words) {
			return
		}
		i := h.of(words[n])
		end := h.at[i]
		if end%chunkWords == 0 {
			end = h.chunk(i)
		}
		h.words[end], h.at[i] = words[n], end+1
		words = words[n+1:]
	}
}

// addSome adds words until one is outside of the range that was told, or has a heap without room. It returns how many it added.
//
//go:noinline
func (h *heaps) addSome(least uint64, shift uint8, words []uint64) int {
	at, to := h.at, h.words
	for k, word := range words {
		i := (word - least) >> (shift & 63)
		if i >= uint64(len(at)) {
			return k
		}
		end := at[i]
		if end%chunkWords == 0 {
			return k
		}
		to[end] = word
		at[i] = end + 1
	}
	return len(words)
}

// of returns the number of the heap of a word.
func (h *heaps) of(word uint64) int {
	if word < h.least {
		return 0
	}
	return int(min((word-h.least)>>(h.shift&63), uint64(len(h.at)-1)))
}

// chunk gives heap i, whose chunks are full, one more, and returns its beginning.
func (h *heaps) chunk(i int) uint32 {
	c := uint32(len(h.next))
	h.next = append(h.next, noChunk)
	if end := h.at[i]; end == 0 {
		h.first[i] = c
	} else {
		h.next[end/chunkWords-1] = c
	}
	h.words = slices.Grow(h.words, chunkWords)[:len(h.words)+chunkWords]
	return c * chunkWords
}

// each calls fn for the chunks of heap i.
func (h *heaps) each(i int, fn func(words []uint64)) {
	last := h.at[i]
	for c := h.first[i]; c != noChunk; c = h.next[c] {
		from, end := c*chunkWords, (c+1)*chunkWords
		if h.next[c] == noChunk {
			end = last
		}
		fn(h.words[from:end])
	}
}

// forget makes heap i, which has n words, empty.
func (h *heaps) forget(i, n int) {
	h.n -= n
	h.first[i], h.at[i] = noChunk, 0
}

// size is the number of words in heap i.
func (h *heaps) size(i int) int {
	n := 0
	for c := h.first[i]; c != noChunk; c = h.next[c] {
		if n += chunkWords; h.next[c] == noChunk {
			n -= int((c+1)*chunkWords - h.at[i])
		}
	}
	return n
}

// cut leaves heaps with keep words in all, or a few more: the first ones, or the last. It returns the least word that belongs to the first
// heap left, and the largest that belongs to the last.
func (h *heaps) cut(keep int, last bool) (least, most uint64) {
	from, end, step := 0, h.len(), 1
	if last {
		from, end, step = h.len()-1, -1, -1
	}
	least, most = 0, ^uint64(0)
	words := 0
	for i := from; i != end; i += step {
		if words < keep {
			words += h.size(i)
			if least, most = h.span(i); last {
				most = ^uint64(0)
			} else {
				least = 0
			}
			continue
		}
		h.first[i], h.at[i] = noChunk, 0
	}
	h.n = words
	return least, most
}

// span returns the least and the largest word that belong to heap i.
func (h *heaps) span(i int) (least, most uint64) {
	least, most = 0, ^uint64(0)
	if i > 0 {
		least = h.least + uint64(i)<<(h.shift&63)
	}
	if i+1 < h.len() {
		most = h.least + uint64(i+1)<<(h.shift&63) - 1
	}
	return least, most
}

// bounds returns bounds of the words in heap i.
func (h *heaps) bounds(i int) (least, most uint64) {
	if 0 < i && i+1 < h.len() {
		return h.span(i)
	}
	least = ^uint64(0)
	h.each(i, func(words []uint64) {
		low, high := bounds(words)
		least, most = min(least, low), max(most, high)
	})
	return least, most
}
