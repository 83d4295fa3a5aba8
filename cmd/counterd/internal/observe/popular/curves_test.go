package popular

import (
	"slices"
	"testing"
	"time"
)

// TestCurve: a post that becomes hot, and is then no longer sampled, has a point for each ten seconds, and 0 where others were busier.
func TestCurve(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := New(now)
	hot, other := Post{1, 7}, Post{2, 8}
	for second := range 700 {
		now = now.Add(time.Second)
		if second >= 500 {
			p.Sample(now, hot, true)
		}
		p.Sample(now, other, false)
		p.Mark(now)
	}
	curve := p.Curve(hot)
	if len(curve) != CurvePoints {
		t.Fatalf("%d points", len(curve))
	}
	first := slices.IndexFunc(curve, func(v float64) bool { return v > 0 })
	if first < 8 || first > 12 || slices.Max(curve[:first]) > 0 || !slices.IsSorted(curve) {
		t.Errorf("got %v", curve)
	}
	if steady := p.Curve(other); slices.Min(steady) < 0.9*Every || slices.Max(steady) > 1.1*Every {
		t.Errorf("got %v", steady)
	}
	if none := p.Curve(Post{1, 8}); slices.Max(none) != 0 {
		t.Errorf("got %v", none)
	}
	p.Forget(now)
	if left := p.Curve(other); len(left) != 0 {
		t.Errorf("got %v", left)
	}
}
