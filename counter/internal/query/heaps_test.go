package query

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/hot"
)

// TestHeaps: heaps give all items back in order, also those outside of the range that was told, and the bounds of a cut say which are left.
func TestHeaps(t *testing.T) {
	t.Parallel()
	const seed = 29
	r := rand.New(rand.NewPCG(seed, seed))
	var h heaps
	var sorter itemSorter
	for range 80 {
		keys := r.IntN(65)
		n := r.IntN(20_000)
		items := make([]hot.Found, n)
		for i := range items {
			items[i] = hot.Found{Key: r.Uint64() >> (64 - keys), Columns: uint64(i)}
			if r.IntN(2) == 0 {
				items[i].Key >>= keys / 2
			}
		}
		least, most := bounds(items[:min(n, 1+r.IntN(300))])
		h.reset(r.IntN(n+1), least, most)
		for rest := items; len(rest) > 0; {
			some := rest[:min(len(rest), 1+r.IntN(500))]
			h.add(some)
			rest = rest[len(some):]
		}
		if h.n != n {
			t.Fatalf("%d items in heaps, want %d", h.n, n)
		}
		slices.SortStableFunc(items, func(a, b hot.Found) int { return cmp.Compare(a.Key, b.Key) })
		if keep := r.IntN(n + 1); r.IntN(2) == 0 {
			last := r.IntN(2) == 0
			least, most := h.cut(keep, last)
			if h.n < keep {
				t.Fatalf("%d items are left, want %d", h.n, keep)
			}
			items = slices.DeleteFunc(items, func(f hot.Found) bool { return f.Key < least || f.Key > most })
			if len(items) != h.n {
				t.Fatalf("%d of %d items are left and %d are between %d and %d", h.n, n, len(items), least, most)
			}
		}
		var got []hot.Found
		for i := range h.len() {
			size := h.size(i)
			some := h.take(nil, i)
			if len(some) != size {
				t.Fatalf("heap %d gave %d items, want %d", i, len(some), size)
			}
			least, most := h.bounds(i, some)
			got = append(got, sorter.sort(some, least, most)...)
		}
		if !slices.Equal(got, items) || h.n != 0 {
			t.Fatalf("keys of %d bits: got %d items, %d are left; want %d in order", keys, len(got), h.n, len(items))
		}
	}
}
