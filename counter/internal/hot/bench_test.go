package hot

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/schema"
)

// BenchmarkFind looks random items up in one large table and in a Go map of the same items: one after the other, each
// depending on the last (chain: the latency of a miss), independent of each other (the processor overlaps them), and
// with a page of 20 prefetched.
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

// BenchmarkBatch finds posts as a batch of 64 does, in a table that the processor's cache holds: it takes instructions and branches alone.
func BenchmarkBatch(b *testing.B) {
	const items = 60_000
	rng := rand.New(rand.NewPCG(1, 2))
	c := Config{Lo: 0, Hi: 1 << 16, Buckets: BucketsFor(items, 0.9), Layout: layout(b, 4, 32, 5, 32, 8, 32), Seed: 7}
	tab := New(c, make([]byte, c.Bytes()))
	for i := range uint64(items) {
		if _, _, err := tab.Insert(i); err != nil {
			b.Fatal(err)
		}
	}
	mids := make([]uint64, 1<<16)
	for i := range mids {
		mids[i] = rng.Uint64N(items)
	}
	sink := uint64(0)
	for n := 0; n < b.N; n += 64 {
		var homes [64]Home
		for i := range homes {
			homes[i] = tab.Prefetch(mids[(n+i)%len(mids)])
		}
		for _, h := range homes {
			s, found := tab.FindAt(h)
			if !found {
				b.Fatal("a post is gone")
			}
			sink += tab.Get(s, 1)
		}
	}
	if sink == 1 {
		fmt.Println(sink)
	}
}

// BenchmarkSeal packs an open table of 64 Ki items, as the engine does to seal a block while a writer waits.
func BenchmarkSeal(b *testing.B) {
	const items = 64 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	wide := layout(b, 16, 32, 16, 32, 8, 32)
	columns := []schema.Column{{ID: 1, Hint: 16, Max: 32}, {ID: 2, Hint: 16, Max: 32}, {ID: 3, Hint: 8, Max: 32}}
	var a arena.Arena
	defer a.Close()
	make := func(c Config) (*Table, arena.Span) {
		span, err := a.Alloc(c.Bytes(), c.Hi == EndMid)
		if err != nil {
			b.Fatal(err)
		}
		t := New(c, span.Data)
		return &t, span
	}
	open := Config{Lo: 1 << 50, Hi: EndMid, Buckets: BucketsFor(items, 0.86), Layout: wide, Seed: 7}
	src, _ := make(open)
	for mid := open.Lo; src.Len() < items; mid += 1 + rng.Uint64N(8000) {
		s, _, err := src.Insert(mid)
		if err != nil {
			b.Fatal(err)
		}
		if rng.IntN(5) == 0 {
			src.Set(s, rng.IntN(3), uint64(1/(1.0001-rng.Float64())))
		}
	}
	b.ResetTimer()
	for range b.N {
		cut, _ := src.Quantile(1 - 1.0/64)
		d := NewDemand(columns)
		src.Survey(d, open.Lo, cut, nil)
		buckets := BucketsFor(d.Items, 0.925)
		widths, above := d.Choose(buckets*8, 4)
		l, err := schema.NewLayoutWidths(columns, widths)
		if err != nil {
			b.Fatal(err)
		}
		low, lowSpan := make(Config{Lo: open.Lo, Hi: cut, Buckets: buckets, Layout: l, Overflow: OverflowRoom(above, buckets)})
		highConfig := open
		highConfig.Lo = cut
		high, highSpan := make(highConfig)
		if err := src.CopyTo(low, high); err != nil {
			b.Fatal(err)
		}
		a.Free(lowSpan)
		a.Free(highSpan)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/items, "ns/item")
}
