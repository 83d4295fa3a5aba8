package query

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRowSorter: rows come out rising by mid, each mid once and with its last row, however mids are spread.
func TestRowSorter(t *testing.T) {
	t.Parallel()
	const seed = 23
	r := rand.New(rand.NewPCG(seed, seed))
	var o rowSorter
	for name, mid := range map[string]func(i, n int) uint64{
		"even":      func(i, n int) uint64 { return 5_000_000 + uint64(r.IntN(1000*n)) },
		"dense":     func(i, n int) uint64 { return uint64(r.IntN(n)) },
		"one":       func(i, n int) uint64 { return 7 },
		"clustered": func(i, n int) uint64 { return uint64(r.IntN(3))<<62 + uint64(r.IntN(10*n)) },
		"one far":   func(i, n int) uint64 { return uint64(n-i) << (uint(i/(n-1)) * 40) },
		"far pairs": func(i, n int) uint64 { return 12_345 + uint64(r.IntN(n))<<45 + uint64(r.IntN(100_000)) },
		"falling":   func(i, n int) uint64 { return uint64(n - i) },
	} {
		for _, width := range []int{1, 2, 3, 4} {
			for _, n := range []int{1, 2, fewRows - 1, fewRows, 1000, 3000, 5 * restRows} {
				rows := Rows{width: width}
				var want [][]uint64
				for i := range n {
					row := []uint64{mid(i, max(n, 2)), uint64(i), 1, 2}[:width]
					rows.flat = append(rows.flat, row...)
					want = append(want, row)
				}
				slices.SortStableFunc(want, func(a, b []uint64) int { return cmp.Compare(a[0], b[0]) })
				for i := len(want) - 1; i > 0; i-- {
					if want[i][0] == want[i-1][0] {
						want = slices.Delete(want, i-1, i)
					}
				}
				rests := 0
				o.pause = func() { rests++ }
				o.sort(&rows)
				if name == "even" && rests < n/restRows-1 {
					t.Fatalf("%d rows of %d words: others had their turn %d times", n, width, rests)
				}
				if got := slices.Collect(slices.Chunk(rows.flat, width)); !slices.EqualFunc(got, want, slices.Equal) {
					t.Fatalf("%s, %d rows of %d words: got %v, want %v", name, n, width, got, want)
				}
			}
		}
	}
}
