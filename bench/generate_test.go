package bench

import (
	"math"
	"slices"
	"testing"
)

func TestPostsAreDeterministic(t *testing.T) {
	long, err := GeneratePosts(10_000, 7)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := GeneratePosts(1000, 7)
	other, _ := GeneratePosts(1000, 8)
	same := 0
	for i := range 1000 {
		if long.MID(i) != again.MID(i) {
			t.Fatalf("post %d is %d in a longer sequence and %d in a shorter one", i, long.MID(i), again.MID(i))
		}
		if long.MID(i) == other.MID(i) {
			same++
		}
	}
	if same > 10 {
		t.Errorf("%d of 1000 posts are the same with another seed", same)
	}
	// A figure that was written down: data sets of earlier versions stay the same.
	if got, want := long.MID(9999), uint64(3000000039722615); got != want {
		t.Errorf("post 9999 of seed 7 is %d, want %d", got, want)
	}
}

func TestPostsIncrease(t *testing.T) {
	const n, later = 200_000, 1000
	posts, err := GeneratePosts(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	last, sum, short := uint64(FirstMID), 0.0, 0
	for i := range n + later {
		mid := posts.MID(i)
		if mid <= last {
			t.Fatalf("post %d is %d, after %d", i, mid, last)
		}
		if i < n {
			sum += float64(mid - last)
			if mid-last < MeanGap {
				short++
			}
		}
		last = mid
	}
	if mean := sum / n; math.Abs(mean-MeanGap) > 0.01*MeanGap {
		t.Errorf("mean gap %.0f, want %d", mean, MeanGap)
	}
	if part := float64(short) / n; math.Abs(part-(1-1/math.E)) > 0.01 {
		t.Errorf("%.3f of the gaps are below the mean, want %.3f as of an exponential distribution", part, 1-1/math.E)
	}
}

func TestGeneratePostsRefuses(t *testing.T) {
	for _, n := range []int{-1, 0, MaxPosts + 1} {
		if _, err := GeneratePosts(n, 1); err == nil {
			t.Errorf("%d posts: no error", n)
		}
	}
}

// TestRows checks the counters drawn against what is known of real ones.
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

// TestPickerAge checks that posts are chosen by age as on the trace, for sets of very different sizes.
func TestPickerAge(t *testing.T) {
	for _, n := range []int{100_000, 10_000_000} {
		picker := NewPicker(n)
		random := newRNG(1)
		const picks = 200_000
		day, week := 0, 0
		for range picks {
			i := picker.pick(&random, n)
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
	picker, random := NewPicker(n), newRNG(1)
	hits := make([]int, maxGroup)
	total := 0
	for range picks {
		if back := n - 1 - picker.pick(&random, n); back < maxGroup {
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
		picker, random := NewPicker(n), newRNG(2)
		seen := map[int]bool{}
		for range 200 * n {
			i := picker.pick(&random, n)
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
	table, random := newAliasTable(weights), newRNG(3)
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

func TestGeneratorsAllocateNothing(t *testing.T) {
	data := testData(t, 10_000)
	picker, random := NewPicker(10_000), newRNG(1)
	row := make([]uint64, 3)
	if n := testing.AllocsPerRun(1000, func() {
		i := picker.pick(&random, 10_000)
		_ = data.Posts().MID(i)
		data.Fill(i, row)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func testData(t testing.TB, posts int) *Dataset {
	t.Helper()
	data, err := NewDataset(posts, 3, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func BenchmarkPick(b *testing.B) {
	picker, random := NewPicker(10_000_000), newRNG(1)
	b.ReportAllocs()
	for range b.N {
		picker.pick(&random, 10_000_000)
	}
}

func BenchmarkMID(b *testing.B) {
	posts, err := GeneratePosts(10_000_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	random := newRNG(1)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		posts.MID(int(random.below(10_000_000)))
	}
}
