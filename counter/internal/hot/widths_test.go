package hot

import (
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestChoose compares the widths chosen for random values with every other width, and the count of values above with the
// overflow entries of a table of those widths.
func TestChoose(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		var cols []schema.Column
		for i := range 1 + rng.IntN(4) {
			top := uint8(1 + rng.IntN(64))
			if rng.IntN(2) == 0 {
				top = uint8(1 + rng.IntN(32))
			}
			c := schema.Column{ID: uint16(1 + i), Hint: uint8(1 + rng.IntN(int(top))), Max: top}
			if rng.IntN(3) == 0 {
				c.Default = rng.Uint64N(c.Limit() + 1)
			}
			cols = append(cols, c)
		}
		l, err := schema.NewLayout(cols)
		if err != nil {
			t.Fatal(err)
		}
		src := newTable(Config{Lo: 0, Hi: 1 << 20, Buckets: 31, Layout: l, Seed: rng.Uint64()})
		values := make([][]uint64, len(cols))
		zeros := rng.IntN(10)
		for src.Len() < 200 {
			s, found, err := src.Insert(rng.Uint64N(1 << 20))
			if err != nil {
				t.Fatal(err)
			}
			if found {
				continue
			}
			for c := range cols {
				v := uint64(0)
				if rng.IntN(10) >= zeros {
					v = rng.Uint64() >> rng.IntN(64) & cols[c].Limit()
				}
				src.Set(s, c, v)
				values[c] = append(values[c], v)
			}
		}
		d := NewDemand(cols)
		src.Survey(d, 0, 1<<20, nil)
		if d.Items != src.Len() {
			t.Fatalf("Survey: got %d items, want %d", d.Items, src.Len())
		}
		const slots = 216
		least := uint8(1 + rng.IntN(6))
		widths, above := d.Choose(slots, least)
		packed, err := schema.NewLayoutWidths(cols, widths)
		if err != nil {
			t.Fatal(err)
		}
		wide := false
		for _, c := range cols {
			wide = wide || c.Limit() >= 1<<narrowValueBits
		}
		for c := range cols {
			cost := func(w uint8) (bits int) {
				f := schema.Field{Width: w, Max: cols[c].Max}
				for _, v := range values[c] {
					if v > f.Inline() {
						bits += 100
						if wide {
							bits += 100
						}
					}
				}
				return bits + slots*int(w)
			}
			needs := schema.Field{Max: cols[c].Max} // the floor: at least the default is packed
			for needs.Width = 1; needs.Width < min(least, cols[c].Hint) || cols[c].Default > needs.Inline(); needs.Width++ {
			}
			if widths[c] < needs.Width {
				t.Fatalf("%+v: got width %d, want at least %d", cols[c], widths[c], needs.Width)
			}
			for w := needs.Width; w <= cols[c].Max; w++ {
				if cost(w) < cost(widths[c]) {
					t.Fatalf("%+v: got width %d, which costs %d bits, want %d: %d bits", cols[c], widths[c], cost(widths[c]), w, cost(w))
				}
			}
		}
		dst := newTable(Config{Lo: 0, Hi: 1 << 20, Buckets: 29, Layout: packed, Overflow: OverflowRoom(above, 29)})
		if err := src.CopyTo(dst); err != nil {
			t.Fatal(err)
		}
		if dst.Overflows() != above || dst.Crowded() {
			t.Fatalf("got %d values in the overflow table, want %d", dst.Overflows(), above)
		}
	}
}

// TestCrowded fills an overflow table beyond the room it was promised and empties it again.
func TestCrowded(t *testing.T) {
	for _, max := range []uint8{32, 60} {
		tab := newTable(Config{Lo: 0, Hi: 1 << 20, Buckets: 61, Layout: layout(t, 4, max), Overflow: 50})
		bytes := tab.Bytes()
		var slots []Ref
		for i := range 200 {
			s, _, err := tab.Insert(uint64(i) * 997)
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, s)
			tab.Set(s, 0, 1000+uint64(i))
			tab.Set(s, 0, 2000+uint64(i)) // no new entry
			if got, want := tab.Crowded(), i+1 > 50; got != want || !want && tab.Bytes() != bytes {
				t.Fatalf("max %d: %d values, %d bytes: got crowded %v, want %v", max, i+1, tab.Bytes(), got, want)
			}
		}
		if tab.Bytes() <= bytes {
			t.Errorf("got %d bytes with 200 values in the overflow table, want more than %d", tab.Bytes(), bytes)
		}
		for i, s := range slots {
			if got := tab.Get(s, 0); got != 2000+uint64(i) {
				t.Fatalf("item %d: got %d, want %d", i, got, 2000+i)
			}
			tab.Set(s, 0, 14)
		}
		if tab.Overflows() != 0 || tab.Crowded() {
			t.Errorf("got %d values in the overflow table, want 0", tab.Overflows())
		}
		if err := tab.Check(); err != nil {
			t.Error(err)
		}
	}
}
