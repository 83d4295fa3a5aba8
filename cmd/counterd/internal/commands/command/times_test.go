package command

import (
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// TestExecuted: executions are counted by their time, whichever loop they are of.
func TestExecuted(t *testing.T) {
	cmd := new(Row[int])
	for i := range 98 {
		cmd.Account(i, 1, time.Microsecond) // more loops than parts
	}
	cmd.Account(3, 1, 3*time.Microsecond)
	cmd.Account(lanes-1, 2, 2*time.Second)
	if calls, nanos := cmd.Calls(), cmd.Nanos(); calls != 101 || nanos != 98_000+3_000+2_000_000_000 {
		t.Errorf("%d calls of %d ns", calls, nanos)
	}
	const us = time.Microsecond
	for p, want := range map[float64]time.Duration{0: us, 0.5: us, 0.97: us, 0.98: 3 * us, 0.999: 1 << 20 * us, 1: 1 << 20 * us} {
		if got := cmd.Times().Percentile(p); got != want {
			t.Errorf("percentile %v: got %d, want %d", p, got, want)
		}
	}
	cmd.ResetStats()
	if *cmd.Times() != (stats.Histogram{}) || cmd.Calls() != 0 || cmd.Nanos() != 0 {
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
