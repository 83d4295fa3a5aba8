package scancache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestSortMids: mids are sorted as by comparisons, whatever their number, and however far apart they are.
func TestSortMids(t *testing.T) {
	rng := seed.Rand(t)
	for round := range 100 {
		span := 1 + rng.Uint64()>>(1+rng.IntN(60)) // of 2^3 to 2^63 mids
		base := rng.Uint64N(-span)
		mids := make([]uint64, []int{0, 1, fewMids - 1, fewMids, 5000}[round%5])
		for i := range mids {
			mids[i] = base + rng.Uint64N(span)
		}
		want := slices.Clone(mids)
		slices.Sort(want)
		if got := sortMids(mids); !slices.Equal(got, want) {
			t.Fatalf("%d mids of %d from %d on are not in order", len(want), span, base)
		}
	}
}

// BenchmarkSortMids sorts the mids of a block of 64 Ki posts.
func BenchmarkSortMids(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	mids := make([]uint64, 64<<10)
	for i := range mids {
		mids[i] = 1<<60 + rng.Uint64N(4000*64<<10)
	}
	for name, sort := range map[string]func([]uint64) []uint64{
		"bytes":       sortMids,
		"comparisons": func(mids []uint64) []uint64 { slices.Sort(mids); return mids },
	} {
		b.Run(name, func(b *testing.B) {
			given := make([]uint64, len(mids))
			for b.Loop() {
				copy(given, mids)
				sort(given)
			}
		})
	}
}
