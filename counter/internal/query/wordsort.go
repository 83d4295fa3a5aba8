package query

import (
	"math/bits"
	"slices"
)

// wordSorter sorts the words of heaps. It keeps its memory.
type wordSorter struct {
	spare []uint64
	ends  []uint32 // of the parts
}

// sort returns words in rising order, in their memory or other memory. The sorter keeps the memory that it does not return.
//
// Words are spread about evenly: as many parts of their range as there are words hold about one each. So each word is moved to its part, and
// few are moved again.
func (o *wordSorter) sort(words []uint64) []uint64 {
	n := len(words)
	if n < fewRows {
		insertWords(words)
		return words
	}
	least, most := words[0], words[0]
	for _, v := range words {
		least, most = min(least, v), max(most, v)
	}
	shift := max(0, bits.Len64(most-least)-bits.Len(uint(n))) & 63
	parts := int((most-least)>>shift) + 1
	o.ends = slices.Grow(o.ends[:0], parts+1)[:parts+1]
	ends := o.ends
	clear(ends)
	for _, v := range words {
		ends[(v-least)>>shift+1]++
	}
	largest, end := uint32(0), uint32(0)
	for i, in := range ends {
		largest = max(largest, in)
		end += in
		ends[i] = end
	}
	if largest > manyRows { // they are not spread evenly
		slices.Sort(words)
		return words
	}
	to := slices.Grow(o.spare[:0], n)[:n]
	for _, v := range words {
		end := &ends[(v-least)>>shift]
		to[*end] = v
		*end++
	}
	insertWords(to)
	o.spare = words[:0]
	return to
}

// insertWords sorts words that are nearly sorted.
func insertWords(words []uint64) {
	for i := 1; i < len(words); i++ {
		v, j := words[i], i
		for j > 0 && words[j-1] > v {
			words[j] = words[j-1]
			j--
		}
		words[j] = v
	}
}
