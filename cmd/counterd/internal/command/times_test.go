package command

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	for took, want := range map[time.Duration]int{-1: 0, 0: 0, 1: 0, 1000: 0, 1001: 1, 2000: 1, 2001: 2, 4000: 2, time.Millisecond: 10, 1024 * time.Microsecond: 10,
		1025 * time.Microsecond: 11, 10 * time.Second: 24, time.Hour: 24} {
		var h Histogram
		h.add(3, took)
		if h[want].Load() != 3 || want < timeBuckets-1 && want > 0 && (took > time.Duration(bound(want))*time.Microsecond || took <= time.Duration(bound(want-1))*time.Microsecond) {
			t.Errorf("%v is not in bucket %d", took, want)
		}
	}
	var h Histogram
	h.add(98, time.Microsecond)
	h.add(1, 3*time.Microsecond)
	h.add(1, time.Second)
	for p, want := range map[float64]int64{0: 1, 0.5: 1, 0.98: 1, 0.99: 4, 0.999: 1 << 20, 1: 1 << 20} {
		if got := h.Percentile(p); got != want {
			t.Errorf("percentile %v: got %d, want %d", p, got, want)
		}
	}
	h.reset()
	if h != (Histogram{}) {
		t.Error("not empty after reset")
	}
}

func BenchmarkAccount(b *testing.B) {
	cmd := new(Row[int])
	b.ReportAllocs()
	for b.Loop() {
		cmd.Account(16, 5*time.Microsecond)
	}
}
