package block

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestSortRows: rows are sorted as by comparisons, whatever their number, and however far apart their mids are; others have a turn after each restRows.
func TestSortRows(t *testing.T) {
	rng := seed.Rand(t)
	for round := range 60 {
		n := []int{0, 1, 2, fewRows - 1, fewRows, fewRows + 1, 3000, 2*restRows + 5}[round%8]
		span := 1 + rng.Uint64()>>(1+rng.IntN(50)) // of 2^13 to 2^63 mids
		base := rng.Uint64N(-span)
		seen := map[uint64]bool{}
		var rows []tableRow
		for range n {
			mid := base + rng.Uint64N(span)
			if !seen[mid] {
				seen[mid] = true
				rows = append(rows, tableRow{Mid: mid, Ref: hot.Ref(mid * 7)})
			}
		}
		rng.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		want := slices.Clone(rows)
		slices.SortFunc(want, byMid)
		rests := 0
		if got := sortRows(slices.Clone(rows), func() { rests++ }); !slices.Equal(got, want) {
			t.Fatalf("%d rows within %d mids from %d on are not in order", len(rows), span, base)
		}
		if len(rows) > 2*restRows && rests < 2*len(rows)/restRows {
			t.Errorf("%d rests while %d rows were sorted, want one after each %d of a pass", rests, len(rows), restRows)
		}
		if !slices.Equal(sortRows(rows, nil), want) {
			t.Fatal("without rests the rows are not in order")
		}
	}
}

// BenchmarkSortedRows sorts the rows of a block of 64 Ki posts, as a demotion does first.
func BenchmarkSortedRows(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := make([]tableRow, 64<<10)
	for i := range rows {
		rows[i] = tableRow{Mid: 1<<60 + rng.Uint64N(4000*64<<10), Ref: hot.Ref(i)}
	}
	given := make([]tableRow, len(rows))
	for b.Loop() {
		copy(given, rows)
		sortRows(given, nil)
	}
}
