package hot

import (
	"slices"
	"testing"
)

// TestCopyPacked copies items into tables with the same layout, whose bits are copied as they are: few columns and more than a word has, values in the overflow
// table, and one table or two. The walk over the overflow table rests.
func TestCopyPacked(t *testing.T) {
	rng := newRand(t)
	for round := range 40 {
		var widths []uint8
		for range 1 + rng.IntN(60) {
			most := 1 + rng.IntN(63)
			widths = append(widths, uint8(1+rng.IntN(min(most, 5))), uint8(most))
		}
		l := layout(t, widths...)
		const end = 1 << 20
		src := newTable(Config{Hi: end, Buckets: 151, Layout: l, Seed: rng.Uint64()})
		want := model{}
		for range 1500 {
			step(t, rng, src, want, rng.Uint64N(end))
		}
		cut := 1 + rng.Uint64N(end-1)
		low := newTable(Config{Hi: cut, Buckets: 151, Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(2) * 3000})
		high := newTable(Config{Lo: cut, Hi: end, Buckets: 151, Layout: l, Seed: rng.Uint64()})
		whole := newTable(Config{Hi: end, Buckets: 211, Layout: l, Seed: rng.Uint64()})
		rests := 0
		if err := src.CopyResting(func() { rests++ }, low, high); err != nil {
			t.Fatal(err)
		}
		if err := src.CopyTo(whole); err != nil {
			t.Fatal(err)
		}
		if places := src.items.over.capacity(); rests < places/restPlaces {
			t.Errorf("round %d: %d rests in a walk over %d places of the overflow table", round, rests, places)
		}
		below, above := model{}, model{}
		for mid, row := range want {
			if mid < cut {
				below[mid] = row
			} else {
				above[mid] = row
			}
		}
		compare(t, whole, want)
		compare(t, low, below)
		compare(t, high, above)
		for mid, row := range want {
			for _, tab := range []*Table{whole, map[bool]*Table{true: low, false: high}[mid < cut]} {
				s, found := tab.Find(mid)
				if got := tab.AppendRow(nil, s); !found || !slices.Equal(got, row) {
					t.Fatalf("round %d: item %d is %v, %v, want %v", round, mid, got, found, row)
				}
			}
		}
	}
}

// TestBlankAgain: an item has its presets where another was before, whatever the values of that were.
func TestBlankAgain(t *testing.T) {
	rng := newRand(t)
	for range 40 {
		var widths []uint8
		for range 1 + rng.IntN(40) {
			widths = append(widths, uint8(1+rng.IntN(8)), 40)
		}
		l := layout(t, widths...)
		tab := newTable(Config{Hi: 1 << 20, Buckets: 3, Layout: l, Seed: rng.Uint64(), Overflow: 10})
		for range 100 {
			mid := rng.Uint64N(1 << 20)
			s, found, err := tab.Insert(mid)
			if err != nil || found {
				continue
			}
			if row := tab.AppendRow(nil, s); slices.Max(row) != 0 {
				t.Fatalf("a new item has %v, want zeros", row)
			}
			for c := range l.Fields {
				tab.Set(s, c, rng.Uint64N(1<<(1+rng.IntN(39))))
			}
			if rng.IntN(3) > 0 {
				tab.Delete(s)
			}
		}
		if err := tab.Check(); err != nil {
			t.Fatal(err)
		}
	}
}
