package query

import (
	"cmp"
	"math/bits"
	"slices"
)

// wordSorter sorts words by their keys, which are all but their low bits. Those with the same key keep their order. It keeps its memory.
type wordSorter struct {
	to    []uint64
	ends  []uint32 // of the parts
	plain bool     // vector instructions are not used, for tests
}

// sort returns the words of heap i, which is empty then, in rising order. They are valid until the next call.
//
// Keys are spread about evenly: as many parts of their range as there are words hold about one each. So each word is moved to its part, and
// few are moved again.
func (o *wordSorter) sort(h *heaps, i int, low uint) []uint64 {
	n, vectors := h.size(i), hasVectors() && !o.plain
	o.to = slices.Grow(o.to[:0], n)[:n]
	if n < fewRows {
		to := o.to
		h.each(i, func(words []uint64) { to = to[copy(to, words):] })
	} else {
		least, most := h.bounds(i)
		least = least >> low << low
		shift := uint(min(max(int(low), bits.Len64(most-least)-bits.Len(uint(n))), 63))
		parts := int((most-least)>>shift) + 1
		o.ends = slices.Grow(o.ends[:0], parts+sumStep)[:parts+1]
		clear(o.ends)
		h.each(i, func(words []uint64) { o.count(least, shift, words) })
		if vectors {
			sumVector(&o.ends[0], len(o.ends))
		} else {
			o.sum()
		}
		h.each(i, func(words []uint64) { o.move(least, shift, words) })
	}
	h.forget(i, n)
	if !order(o.to, 1<<low-1, vectors) { // they are not spread evenly
		slices.SortStableFunc(o.to, func(a, b uint64) int { return cmp.Compare(a>>low, b>>low) })
	}
	return o.to
}

// sumStep is how many numbers sumVector sums up at a time.
const sumStep = 16

// order sorts words that are nearly sorted. Where they are not, it gives up and returns false. low has the bits that are no key.
func order(words []uint64, low uint64, vectors bool) bool {
	left := max(fewRows*fewRows/2, 8*len(words)) // places that words may be moved by
	if !vectors {
		bubble(words, low)
		return insertWords(words, low, left)
	}
	n := len(words)
	if n > 8 {
		for range 2 {
			exchangeVector(&words[0], n&^7, low)
			exchangeVector(&words[1], (n-1)&^7, low)
		}
	}
	for at := 0; at+1 < n; {
		if some := (n - 1 - at) &^ 7; some > 0 {
			i := disorderVector(&words[at], some, low)
			if at += i; i == some {
				continue
			}
		} else if words[at] <= words[at+1]|low {
			at++
			continue
		}
		at++
		left -= insertWord(words, at, low)
		if left < 0 {
			return false
		}
	}
	return true
}

// insertWord moves the word at i, before which words are sorted, to its place. It returns how far.
func insertWord(words []uint64, i int, low uint64) int {
	word, j := words[i], i
	for j > 0 && words[j-1] > word|low {
		words[j] = words[j-1]
		j--
	}
	words[j] = word
	return i - j
}

// The loops of sort are functions of their own, as each needs all registers: the order of their parameters has the number of bits to shift in the
// register that the processor wants it in.

// bounds returns the least and the largest of words.
//
//go:noinline
func bounds(words []uint64) (least, most uint64) {
	least = ^uint64(0)
	for _, word := range words {
		least, most = min(least, word), max(most, word)
	}
	return least, most
}

// count adds the number of words in part i to ends[i+1].
//
//go:noinline
func (o *wordSorter) count(least uint64, shift uint, words []uint64) {
	counts := o.ends[1:]
	for _, word := range words {
		counts[(word-least)>>(shift&63)]++
	}
}

// sum makes ends[i] the beginning of part i, of the numbers of words in the parts before.
//
//go:noinline
func (o *wordSorter) sum() {
	end := uint32(0)
	for i, in := range o.ends {
		end += in
		o.ends[i] = end
	}
}

// move moves words to their parts, of which ends has the beginnings, and then the ends.
//
//go:noinline
func (o *wordSorter) move(least uint64, shift uint, words []uint64) {
	to, ends := o.to, o.ends
	for _, word := range words {
		end := &ends[(word-least)>>(shift&63)]
		to[*end] = word
		*end++
	}
}

// bubble exchanges neighbours that are not in order, from the first on: a word that is larger than those behind it goes behind them. It has no
// branch that the processor would guess wrong, and leaves few to insertWords.
//
//go:noinline
func bubble(words []uint64, low uint64) {
	if len(words) == 0 {
		return
	}
	up := words[0]
	for i, word := range words[1:] {
		down := word
		if up > word|low {
			down = up
		}
		// down is the larger, or the later
		words[i] = up ^ word ^ down
		up = down
	}
	words[len(words)-1] = up
}

// insertWords is order without bubble, which has gone over the words.
//
//go:noinline
func insertWords(words []uint64, low uint64, left int) bool {
	last := uint64(0)
	for i, word := range words {
		if word|low >= last {
			last = word
			continue
		}
		if left -= insertWord(words, i, low); left < 0 {
			return false
		}
	}
	return true
}

// orderEqual sorts words with the same key, which stand behind each other, in the order of compare. Where
// it finds no difference, the low bits decide.
func orderEqual(words []uint64, low uint, compare func(a, b uint64) int) {
	for from, i := 0, 1; i <= len(words); i++ {
		if i < len(words) && words[i]>>low == words[from]>>low {
			continue
		}
		if i > from+1 {
			slices.SortFunc(words[from:i], func(a, b uint64) int { return cmp.Or(compare(a, b), cmp.Compare(a, b)) })
		}
		from = i
	}
}
