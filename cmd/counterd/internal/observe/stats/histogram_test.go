package stats

import (
	"testing"
	"time"
)

// TestHistogram: a time is in the bucket whose bound is the next above it, and buckets add up to powers of two.
func TestHistogram(t *testing.T) {
	for took, want := range map[time.Duration]int{-1: 0, 0: 0, 1: 0, 250: 0, 251: 1, 1000: 3, 1001: 4, 1250: 4, 1251: 5, 2000: 7, 2001: 8, 4000: 11,
		time.Millisecond: 43, 1024 * time.Microsecond: 43, 1025 * time.Microsecond: 44, 1 << 24 * time.Microsecond: 99, time.Hour: 99} {
		if got := BucketOf(took); got != want {
			t.Errorf("%v is in bucket %d, want %d", took, got, want)
		}
	}
	// Bounds rise by a quarter at most from 1 us on, and each time lies between the bounds of its bucket and the one before.
	for i := 1; i < Buckets; i++ {
		if a, b := Bound(i-1), Bound(i); b <= a || i > 3 && b > a+a/4 || BucketOf(b) != i || BucketOf(a+1) != i {
			t.Errorf("bucket %d: bounds %v and %v, they are in buckets %d and %d", i, a, b, BucketOf(a+1), BucketOf(b))
		}
	}
	if h := (Histogram{3: 1, 4: 2, 7: 3, 8: 4, 99: 5}); h.ByPower() != [Powers]uint64{0: 1, 1: 5, 2: 4, 24: 5} {
		t.Errorf("by powers of two: %v", h.ByPower())
	}
}
