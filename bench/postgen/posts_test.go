package postgen

import (
	"math"
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
	// A number that was written down: data sets of earlier versions stay the same.
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

func TestGeneratorsAllocateNothing(t *testing.T) {
	posts, err := GeneratePosts(10_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := NewRows(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	picker, random := NewPicker(10_000), NewRNG(1)
	row := make([]uint64, 3)
	if n := testing.AllocsPerRun(1000, func() {
		i := picker.PickFrom(&random, 10_000)
		_ = posts.MID(i)
		rows.Fill(i, row)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkMID(b *testing.B) {
	posts, err := GeneratePosts(10_000_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	random := NewRNG(1)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		posts.MID(int(random.Below(10_000_000)))
	}
}
