package server

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestHeapLimit: the Go heap has what posts leave of maxmemory, and room to work in any case. Not in parallel: the limit
// is the process's.
func TestHeapLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ max, posts, live, want int64 }{
		{0, 5000 * mb, 100 * mb, math.MaxInt64},
		{1000 * mb, 0, 10 * mb, 1024 * mb},
		{1000 * mb, 900 * mb, 10 * mb, 124 * mb},
		{1000 * mb, 968 * mb, 64 * mb, 88 * mb}, // 56 would leave nothing to work in
		{1000 * mb, 2000 * mb, 8 * mb, 25 * mb},
		{1000 * mb, 250 * mb, 750 * mb, 782 * mb},
	} {
		if got := (heapLimit{}).of(c.max, c.posts, c.live); got != c.want {
			t.Errorf("maxmemory %d, posts %d, in use %d: got %d, want %d", c.max, c.posts, c.live, got, c.want)
		}
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var h heapLimit
	h.look(0, 5000*mb)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("without maxmemory: got a limit of %d, want %d as before", got, before)
	}
	h.look(8000*mb, 3000*mb)
	if got := debug.SetMemoryLimit(-1); got != 5024*mb {
		t.Errorf("got a limit of %d, want %d", got, 5024*mb)
	}
	h.look(0, 3000*mb)
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("maxmemory taken away: got a limit of %d, want none", got)
	}
}
