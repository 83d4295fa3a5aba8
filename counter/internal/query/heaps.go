package query

import (
	"math/bits"
	"slices"
)

// heaps has the words of the items found in a hot block (hot.Picked), parted by their mids: heap 0 has those of the first part of the
// block's range, and so on. Words come in any order. A heap is sorted when its rows are given out.
//
//	heap    0          1          2    ...
//	        |          |          |
//	words  [chunk]    [chunk]    [chunk]        chunkWords words each: first of the heap, and from each the next
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
	shift uint8    // from a word to the number of its heap
}

const (
	chunkWords = 32
	heapWords  = 256 // about so many are in a heap
	noChunk    = ^uint32(0)
)

// reset makes h empty, for about so many words. A word is keys bits of its key, and below them payload bits.
func (h *heaps) reset(words int, keys, payload uint8) {
	parts := min(uint8(bits.Len(uint(words/heapWords))), keys)
	if keys+payload == 64 {
		parts = max(parts, 1) // a shift is below 64
	}
	h.shift, h.n = payload+keys-parts, 0
	h.words, h.next = takeWords(h.words, words+words/8+chunkWords<<parts), h.next[:0]
	h.first = slices.Grow(h.first[:0], 1<<parts)[:1<<parts]
	h.at = slices.Grow(h.at[:0], 1<<parts)[:1<<parts]
	for i := range h.at {
		h.first[i], h.at[i] = noChunk, 0
	}
}

// len is the number of heaps.
func (h *heaps) len() int { return len(h.at) }

// add takes words.
func (h *heaps) add(words []uint64) {
	at, shift := h.at, h.shift&63
	for _, w := range words {
		i := w >> shift
		end := at[i]
		if end%chunkWords == 0 {
			end = h.chunk(int(i))
		}
		h.words[end] = w
		at[i] = end + 1
	}
	h.n += len(words)
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

// take appends the words of heap i, which is empty then.
func (h *heaps) take(dst []uint64, i int) []uint64 {
	n, last := len(dst), h.at[i]
	for c := h.first[i]; c != noChunk; c = h.next[c] {
		from, end := c*chunkWords, (c+1)*chunkWords
		if h.next[c] == noChunk {
			end = last
		}
		dst = append(dst, h.words[from:end]...)
	}
	h.n -= len(dst) - n
	h.first[i], h.at[i] = noChunk, 0
	return dst
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
			if least, most = 0, (uint64(i)+1)<<(h.shift&63)-1; last {
				least, most = uint64(i)<<(h.shift&63), ^uint64(0)
			}
			continue
		}
		h.first[i], h.at[i] = noChunk, 0
	}
	h.n = words
	return least, most
}
