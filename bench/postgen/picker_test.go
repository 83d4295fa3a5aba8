package postgen

import (
	"math"
	"slices"
	"testing"
)

// TestPickerAge checks that posts are chosen by age as on the trace, for sets of very different sizes.
func TestPickerAge(t *testing.T) {
	for _, n := range []int{100_000, 10_000_000} {
		picker := NewPicker(n)
		random := NewRNG(1)
		const picks = 200_000
		day, week := 0, 0
		for range picks {
			i := picker.PickFrom(&random, n)
			if i < 0 || i >= n {
				t.Fatalf("picked %d of %d", i, n)
			}
			if age := float64(n-1-i) / float64(n) * 100; age < 1 {
				day++
				week++
			} else if age < 7 {
				week++
			}
		}
		// Of all that is younger than the 100 days; the trace has 79 and 93 %.
		if part := float64(day) / picks; part < 0.77 || part > 0.83 {
			t.Errorf("%d posts: %.3f of the picks are younger than a day, want 0.8", n, part)
		}
		if part := float64(week) / picks; part < 0.92 || part > 0.97 {
			t.Errorf("%d posts: %.3f of the picks are younger than a week, want 0.945", n, part)
		}
	}
}

// TestPickerPopularity checks that within an age a few posts take most.
func TestPickerPopularity(t *testing.T) {
	const n, picks = 10_000_000, 400_000
	picker, random := NewPicker(n), NewRNG(1)
	hits := make([]int, maxGroup)
	total := 0
	for range picks {
		if back := n - 1 - picker.PickFrom(&random, n); back < maxGroup {
			hits[back]++
			total++
		}
	}
	slices.Sort(hits)
	top := 0
	for _, h := range hits[maxGroup-maxGroup/100:] {
		top += h
	}
	if part := float64(top) / float64(total); part < 0.66 || part > 0.79 {
		t.Errorf("the top 1 %% of a group take %.3f, want 0.66 to 0.79", part)
	}
}

func TestPickerSmall(t *testing.T) {
	for _, n := range []int{1, 2, 3, 17, 1000} {
		picker, random := NewPicker(n), NewRNG(2)
		seen := map[int]bool{}
		for range 200 * n {
			i := picker.PickFrom(&random, n)
			if i < 0 || i >= n {
				t.Fatalf("picked %d of %d", i, n)
			}
			seen[i] = true
		}
		if n <= 17 && len(seen) != n {
			t.Errorf("%d of %d posts are ever picked", len(seen), n)
		}
	}
}

func TestAliasTable(t *testing.T) {
	weights := []float64{1, 2, 4, 8, 0, 1}
	table, random := newAliasTable(weights), NewRNG(3)
	const draws = 160_000
	got := make([]float64, len(weights))
	for range draws {
		got[table.pick(&random)]++
	}
	for i, w := range weights {
		if want := w / 16 * draws; math.Abs(got[i]-want) > 0.02*draws {
			t.Errorf("index %d drawn %.0f times, want %.0f", i, got[i], want)
		}
	}
	if got[4] != 0 {
		t.Errorf("an index of no weight was drawn %.0f times", got[4])
	}
}

func BenchmarkPick(b *testing.B) {
	picker, random := NewPicker(10_000_000), NewRNG(1)
	b.ReportAllocs()
	for range b.N {
		picker.PickFrom(&random, 10_000_000)
	}
}
