package page

import (
	"slices"
	"testing"
)

// TestReplan plans pages of random rows for numbers of rows that go up and down: the histograms are those of the rows,
// and a page has the size that was planned.
func TestReplan(t *testing.T) {
	rnd := newRand(t)
	for range 60 {
		cols := 1 + rnd.IntN(4)
		most := 2 + rnd.IntN(800)
		columns := make([][]uint64, cols)
		mids := make([]uint64, most)
		usual := rnd.Uint64N(3) * 400 // common values below and above 256
		for i := range mids {
			mids[i] = uint64(i)*5000 + rnd.Uint64N(4000)
			for c := range columns {
				v := usual
				if rnd.IntN(5) == 0 {
					v = rnd.Uint64() >> (1 + rnd.IntN(63))
				}
				columns[c] = append(columns[c], v)
			}
		}
		e := Encoder{Cols: cols}
		var first, p Plan
		n := 1 + rnd.IntN(most)
		e.Plan(&first, mids, columns, n)
		for range 6 {
			n = 1 + rnd.IntN(most)
			like := &Plan{Presence: first.Presence, Column: slices.Clone(first.Column)}
			if rnd.IntN(3) == 0 {
				like = nil
			}
			e.Replan(&p, mids, columns, n, like)
			for c := range columns {
				var got, want tally
				e.sparse.tally(&got, c, true)
				want.count(columns[c][:n])
				if !slices.Equal(got.val, want.val) || !slices.Equal(got.below, want.below) {
					t.Fatalf("column %d of %d rows: values %v, %v, want %v, %v", c, n, got.val, got.below, want.val, want.below)
				}
				if ends := [2]uint64{slices.Min(columns[c][:n]), slices.Max(columns[c][:n])}; p.Ends[c] != ends {
					t.Fatalf("column %d of %d rows: %v, want %v", c, n, p.Ends[c], ends)
				}
			}
			if page := e.AppendPage(nil, &p, mids, columns); len(page) != p.Size {
				t.Fatalf("%d rows: %d bytes, planned %d (like %+v)", n, len(page), p.Size, like)
			}
		}
	}
}
