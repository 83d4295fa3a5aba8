package persist

import "testing"

// TestHistogram: a value is in the bucket whose bound is the first that it does not pass.
func TestHistogram(t *testing.T) {
	var h Histogram
	for v, want := range map[uint64]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1 << 23: 23, 1<<23 + 1: 24, 1 << 24: 24, 1<<24 + 1: 24, 1 << 63: 24} {
		before := h.Buckets[want]
		h.add(v)
		if h.Buckets[want] != before+1 {
			t.Errorf("%d is not in bucket %d: %v", v, want, h.Buckets)
		}
	}
	h = Histogram{}
	h.add(5)
	h.add(7)
	if h.Sum != 12 {
		t.Errorf("the sum is %d, want 12", h.Sum)
	}
}
