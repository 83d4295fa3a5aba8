package query

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeaps: heaps give all words back in order, also those outside of the range that was told, and the bounds of a cut say which are left.
func TestHeaps(t *testing.T) {
	t.Parallel()
	const seed = 29
	r := rand.New(rand.NewPCG(seed, seed))
	var h heaps
	var sorter wordSorter
	for range 160 {
		sorter.plain = r.IntN(3) == 0
		low := uint(r.IntN(25))
		keys := r.IntN(wordBits + 1 - int(low))
		n := r.IntN(20_000)
		words := make([]uint64, n)
		for i := range words {
			key := r.Uint64() >> (64 - keys)
			if r.IntN(2) == 0 {
				key >>= keys / 2
			}
			words[i] = key<<low | r.Uint64N(1<<low)
		}
		least, most := bounds(words[:min(n, 1+r.IntN(300))])
		h.reset(r.IntN(n+1), min(least, most), most, low)
		for rest := words; len(rest) > 0; {
			some := rest[:min(len(rest), 1+r.IntN(500))]
			h.add(some)
			rest = rest[len(some):]
		}
		if h.n != n {
			t.Fatalf("%d words in heaps, want %d", h.n, n)
		}
		slices.SortStableFunc(words, func(a, b uint64) int { return cmp.Compare(a>>low, b>>low) })
		if keep := r.IntN(n + 1); keep > 0 && r.IntN(2) == 0 {
			last := r.IntN(2) == 0
			least, most := h.cut(keep, last)
			if h.n < keep {
				t.Fatalf("%d words are left, want %d", h.n, keep)
			}
			words = slices.DeleteFunc(words, func(word uint64) bool { return word < least || word > most })
			if len(words) != h.n {
				t.Fatalf("%d of %d words are left and %d are between %d and %d", h.n, n, len(words), least, most)
			}
		}
		var got []uint64
		for i := range h.len() {
			size := h.size(i)
			some := sorter.sort(&h, i, low)
			if len(some) != size {
				t.Fatalf("heap %d gave %d words, want %d", i, len(some), size)
			}
			got = append(got, some...)
		}
		if !slices.Equal(got, words) || h.n != 0 {
			t.Fatalf("keys of %d bits: got %d words, %d are left; want %d in order", keys, len(got), h.n, len(words))
		}
	}
}
