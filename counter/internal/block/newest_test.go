package block

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestNewest compares the list with all mids that came, in nearly rising, falling and random order, some of them twice.
func TestNewest(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for name, next := range map[string]func(i uint64) uint64{
		"rising":  func(i uint64) uint64 { return 10*i + rng.Uint64N(100) },
		"falling": func(i uint64) uint64 { return 100_000 - 10*i + rng.Uint64N(100) },
		"random":  func(uint64) uint64 { return rng.Uint64N(1 << 20) },
	} {
		t.Run(name, func(t *testing.T) {
			b := Block{Hi: hot.EndMid, Ascent: Ascent{Newest: new(Newest)}}
			var came []uint64
			for i := range uint64(1000) {
				mid := next(i)
				b.Newest.note(mid)
				came = append(came, mid)
				slices.Sort(came)
				came = slices.Compact(came)
				if i == 500 {
					b.Lo = came[len(came)/2]
				}
				lo, hi, most := uint64(0), hot.EndMid, 1+rng.IntN(3*NewestKept)
				if rng.IntN(2) == 0 {
					lo, hi = rng.Uint64N(came[len(came)-1]+1), came[rng.IntN(len(came))]
				}
				list, floor := b.AppendNewest(nil, lo, hi, most)
				if len(list) > most || !slices.IsSorted(list) {
					t.Fatalf("got %d of %d, %v", len(list), most, list)
				}
				for _, mid := range came {
					if mid >= max(lo, floor) && mid <= hi && !slices.Contains(list, mid) {
						t.Fatalf("%d is missing from %d to %d: floor %d, %v", mid, lo, hi, floor, list)
					}
				}
				for _, mid := range list {
					if _, ok := slices.BinarySearch(came, mid); !ok || mid < lo || mid > hi {
						t.Fatalf("%d is in the list from %d to %d", mid, lo, hi)
					}
				}
				if _, floor := b.AppendNewest(nil, 0, hot.EndMid, NewestKept); i > 2*NewestKept && name == "rising" {
					if below, _ := slices.BinarySearch(came, floor); len(came)-below < NewestKept && floor > b.Lo {
						t.Fatalf("only %d mids from %d on", len(came)-below, floor)
					}
				}
			}
		})
	}
}
