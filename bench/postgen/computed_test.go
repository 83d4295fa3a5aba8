package postgen

import (
	"math"
	"testing"
)

// TestComputedPosts: mids rise, are the same however they are asked for, and have the gaps that they should.
func TestComputedPosts(t *testing.T) {
	const n = 100_000
	p, err := ComputePosts(n, 7)
	if err != nil {
		t.Fatal(err)
	}
	mids := p.Append(nil, 0, n+100)
	if len(mids) != n+100 || p.Len() != n {
		t.Fatalf("%d mids, Len %d", len(mids), p.Len())
	}
	small := 0
	for i, mid := range mids {
		if i > 0 && mid <= mids[i-1] {
			t.Fatalf("post %d: %d after %d", i, mid, mids[i-1])
		}
		if i%37 == 0 && p.MID(i) != mid {
			t.Fatalf("post %d: %d alone, %d in a row", i, p.MID(i), mid)
		}
		if i > 0 && mid-mids[i-1] < MeanGap {
			small++
		}
	}
	if mean := float64(mids[n-1]-mids[0]) / (n - 1); math.Abs(mean-MeanGap) > 10 {
		t.Errorf("mean gap %.0f, want %d", mean, MeanGap)
	}
	// Of exponential gaps 1-1/e = 0.632 are below their mean.
	if part := float64(small) / n; part < 0.61 || part > 0.65 {
		t.Errorf("%.3f of the gaps are below their mean", part)
	}
	if some := p.Append(nil, 45, 70); some[0] != mids[45] || some[69] != mids[114] {
		t.Error("a row from the middle of a stretch differs")
	}
	if _, err := ComputePosts(0, 1); err == nil {
		t.Error("no posts were taken")
	}
}
