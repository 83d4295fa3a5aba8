package hot

import "testing"

// TestAdd: a sum stays within its column, whatever is added.
func TestAdd(t *testing.T) {
	const top = 1<<63 - 1
	for _, c := range []struct {
		v     uint64
		n     int64
		limit uint64
		want  uint64
		ok    bool
	}{
		{0, 1, 1, 1, true}, {1, 1, 1, 0, false}, {0, -1, 1, 0, false}, {5, -5, 9, 0, true}, {top, 0, top, top, true},
		{top, 1, top, 0, false}, {0, top, top, top, true}, {top, -1 << 63, top, 0, false}, {3, -1 << 63, top, 0, false}, {0, -1 << 63, top, 0, false},
	} {
		if got, ok := Added(c.v, c.n, c.limit); ok != c.ok || ok && got != c.want {
			t.Errorf("Added(%d, %d, %d): got %d, %v, want %d, %v", c.v, c.n, c.limit, got, ok, c.want, c.ok)
		}
	}
}

// TestTableAdd adds to random columns, beside Get and Set in another table: values in one word and in two, in the table and in its overflow table, and sums out
// of range. Nonzero agrees with Get.
func TestTableAdd(t *testing.T) {
	rng := newRand(t)
	for range 60 {
		var widths []uint8
		for range 1 + rng.IntN(9) {
			most := 1 + rng.IntN(63)
			widths = append(widths, uint8(1+rng.IntN(most)), uint8(most))
		}
		l := layout(t, widths...)
		c := Config{Hi: 1 << 40, Buckets: 3, Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(20)}
		tab, other := newTable(c), newTable(c)
		var refs []Ref
		for mid := range uint64(12) {
			s, _, err := tab.Insert(mid << 30)
			if _, _, err2 := other.Insert(mid << 30); err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			refs = append(refs, s)
		}
		for range 600 {
			s, k := refs[rng.IntN(len(refs))], rng.IntN(len(l.Fields))
			n := int64(randomValue(rng, &l.Fields[k]))
			if rng.IntN(2) == 0 {
				n = -n
			}
			limit := l.Fields[k].Limit()
			old, sum, ok := tab.Add(s, k, n, limit)
			wantOld := other.Get(s, k)
			want, wantOK := Added(wantOld, n, limit)
			if wantOK {
				other.Set(s, k, want)
			}
			if old != wantOld || ok != wantOK || ok && sum != want || tab.Get(s, k) != other.Get(s, k) || tab.Overflows() != other.Overflows() {
				t.Fatalf("column %d of %v: %d to %d is %d, %v, want %d to %d, %v", k, widths, n, old, sum, ok, wantOld, want, wantOK)
			}
		}
		for _, s := range refs {
			for k := range l.Fields {
				if got, want := tab.Get(s, k), other.Get(s, k); got != want {
					t.Fatalf("column %d of %v: got %d, want %d", k, widths, got, want)
				}
			}
			first := rng.IntN(len(l.Fields))
			columns := rng.IntN(len(l.Fields) - first + 1)
			want := uint64(0)
			for k := range columns {
				if tab.Get(s, first+k) != 0 {
					want |= 1 << k
				}
			}
			if got := Nonzero(tab, s, first, columns); got != want {
				t.Fatalf("columns from %d on of %v that are not 0: got %b, want %b", first, widths, got, want)
			}
		}
	}
}
