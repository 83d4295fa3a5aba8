package query

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeaps: heaps give all words back in order, and the bounds of a cut say which words are left.
func TestHeaps(t *testing.T) {
	t.Parallel()
	const seed = 29
	r := rand.New(rand.NewPCG(seed, seed))
	var h heaps
	var sorter wordSorter
	for range 60 {
		keys, payload := uint8(r.IntN(30)), uint8(1+r.IntN(34))
		n := r.IntN(20_000)
		h.reset(r.IntN(n+1), keys, payload)
		words := make([]uint64, n)
		for i := range words {
			words[i] = r.Uint64() >> (64 - keys - payload)
			if r.IntN(2) == 0 {
				words[i] >>= keys / 2
			}
		}
		for rest := words; len(rest) > 0; {
			some := rest[:min(len(rest), 1+r.IntN(500))]
			h.add(some)
			rest = rest[len(some):]
		}
		if h.n != n {
			t.Fatalf("%d words in heaps, want %d", h.n, n)
		}
		slices.Sort(words)
		if keep := r.IntN(n + 1); r.IntN(2) == 0 {
			last := r.IntN(2) == 0
			least, most := h.cut(keep, last)
			if h.n < keep {
				t.Fatalf("%d words are left, want %d", h.n, keep)
			}
			from, _ := slices.BinarySearch(words, least)
			to := len(words)
			if most != ^uint64(0) {
				to, _ = slices.BinarySearch(words, most+1)
			}
			if words = words[from:to]; len(words) != h.n {
				t.Fatalf("%d of %d words are left and %d are between %d and %d", h.n, n, len(words), least, most)
			}
		}
		var got []uint64
		for i := range h.len() {
			size := h.size(i)
			some := h.take(nil, i)
			if len(some) != size {
				t.Fatalf("heap %d gave %d words, want %d", i, len(some), size)
			}
			got = append(got, sorter.sort(some)...)
		}
		if !slices.Equal(got, words) || h.n != 0 {
			t.Fatalf("%d keys, %d payload: got %d words, %d are left; want %d in order", keys, payload, len(got), h.n, len(words))
		}
	}
}
