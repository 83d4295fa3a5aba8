package command

import (
	"testing"
	"time"
)

// TestHistogram: executions are counted by their time, whichever loop they are of.
func TestHistogram(t *testing.T) {
	for took, want := range map[time.Duration]int{-1: 0, 0: 0, 1: 0, 1000: 0, 1001: 1, 2000: 1, 2001: 2, 4000: 2, time.Millisecond: 10, 1024 * time.Microsecond: 10,
		1025 * time.Microsecond: 11, 10 * time.Second: 24, time.Hour: 24} {
		if got := bucketOf(took); got != want || want < timeBuckets-1 && want > 0 && (took > time.Duration(bound(want))*time.Microsecond || took <= time.Duration(bound(want-1))*time.Microsecond) {
			t.Errorf("%v is in bucket %d, want %d", took, got, want)
		}
	}
	cmd := new(Row[int])
	for i := range 98 {
		cmd.Account(i, 1, time.Microsecond) // more loops than parts
	}
	cmd.Account(3, 1, 3*time.Microsecond)
	cmd.Account(lanes-1, 2, 2*time.Second)
	if calls, nanos := cmd.Calls(), cmd.Nanos(); calls != 101 || nanos != 98_000+3_000+2_000_000_000 {
		t.Errorf("%d calls of %d ns", calls, nanos)
	}
	for p, want := range map[float64]int64{0: 1, 0.5: 1, 0.97: 1, 0.98: 4, 0.999: 1 << 20, 1: 1 << 20} {
		if got := cmd.Times().Percentile(p); got != want {
			t.Errorf("percentile %v: got %d, want %d", p, got, want)
		}
	}
	cmd.ResetStats()
	if *cmd.Times() != (Histogram{}) || cmd.Calls() != 0 || cmd.Nanos() != 0 {
		t.Error("not empty after reset")
	}
}

func BenchmarkAccount(b *testing.B) {
	cmd := new(Row[int])
	b.ReportAllocs()
	for b.Loop() {
		cmd.Account(0, 16, 5*time.Microsecond)
	}
}
