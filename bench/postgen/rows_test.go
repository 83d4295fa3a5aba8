package postgen

import (
	"math"
	"slices"
	"testing"
)

// TestRows checks the counters drawn against known properties of real ones.
func TestRows(t *testing.T) {
	const n = 300_000
	rows, err := NewRows(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	zeros, above := [3]int{}, [3]int{}
	allZero := 0
	row, again := make([]uint64, 3), make([]uint64, 3)
	for i := range n {
		rows.Fill(i, row)
		rows.Fill(i, again)
		if !slices.Equal(row, again) {
			t.Fatalf("post %d: %d, then %d", i, row, again)
		}
		for col, v := range row {
			if v == 0 {
				zeros[col]++
			}
			if v > 255 {
				above[col]++
			}
		}
		if row[0]+row[1]+row[2] == 0 {
			allZero++
		}
	}
	for col, want := range []float64{0.793, 0.821, 0.749} {
		if part := float64(zeros[col]) / n; math.Abs(part-want) > 0.005 {
			t.Errorf("column %d: %.3f are zero, want %.3f", col, part, want)
		}
		if part := float64(above[col]) / n; part < 0.0002 || part > 0.006 {
			t.Errorf("column %d: %.5f are above 255, want 0.0002 to 0.006", col, part)
		}
	}
	if part := float64(allZero) / n; part < 0.68 || part > 0.72 {
		t.Errorf("%.3f of the posts have all counters zero, want 0.7", part)
	}
}
