package hot

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/counter/internal/arena"
)

// BenchmarkFind looks random items up in one large table and in a Go map of the same items: one after the other, each depending on the last
// (chain: the latency of a miss), independent of each other (the processor overlaps them), and with a page of 20 prefetched.
func BenchmarkFind(b *testing.B) {
	const items = 6_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	c := Config{Lo: 1 << 40, Hi: 1<<40 + items*4000, Buckets: BucketsFor(items, 0.9), Layout: layout(b, 16, 32, 16, 32, 8, 32), Seed: 7}
	var a arena.Arena
	defer a.Close()
	span, err := a.Alloc(c.Bytes(), false)
	if err != nil {
		b.Fatal(err)
	}
	tab := New(c, span.Data)
	m := make(map[uint64][3]uint32, items)
	mids := make([]uint64, 0, items)
	for len(mids) < items {
		mid := c.Lo + rng.Uint64N(items*4000)
		if _, found, err := tab.Insert(mid); err != nil {
			b.Fatal(err)
		} else if !found {
			mids = append(mids, mid)
			m[mid] = [3]uint32{}
		}
	}
	order := make([]uint64, 1<<20)
	for i := range order {
		order[i] = mids[rng.IntN(items)]
	}
	sink := uint64(0)
	mask := len(order) - 1
	b.Run("chain/impl=map", func(b *testing.B) {
		x := uint64(0) // always 0, but only known when the last lookup is done
		for i := range b.N {
			x = uint64(m[order[i&mask]+x][0])
		}
		sink += x
	})
	b.Run("chain/impl=table", func(b *testing.B) {
		x := uint64(0)
		for i := range b.N {
			s, _ := tab.Find(order[i&mask] + x)
			x = tab.Get(s, 0)
		}
		sink += x
	})
	b.Run("independent/impl=map", func(b *testing.B) {
		for i := range b.N {
			sink += uint64(m[order[i&mask]][0])
		}
	})
	b.Run("independent/impl=table", func(b *testing.B) {
		for i := range b.N {
			s, _ := tab.Find(order[i&mask])
			sink += tab.Get(s, 0)
		}
	})
	b.Run("page=20/impl=table", func(b *testing.B) {
		for i := 0; i < b.N; i += 20 {
			for j := range 20 {
				tab.Prefetch(order[(i+j)&mask])
			}
			for j := range 20 {
				s, _ := tab.Find(order[(i+j)&mask])
				sink += tab.Get(s, 0)
			}
		}
	})
	if sink == 1 {
		fmt.Println(sink)
	}
	b.ReportMetric(float64(tab.Bytes())/items, "B/item")
}
