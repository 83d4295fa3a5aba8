package heap

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestHeapLimit: the Go heap has the part of maxmemory that posts leave, and room to work in any case. Not in parallel:
// the limit is the process's.
func TestHeapLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ max, posts, clients, held, live, want int64 }{
		{0, 5000 * mb, 0, 0, 100 * mb, math.MaxInt64},
		{1000 * mb, 0, 256 * mb, 0, 10 * mb, 1024 * mb},
		{1000 * mb, 900 * mb, 256 * mb, 0, 10 * mb, 124 * mb},
		{1000 * mb, 968 * mb, 256 * mb, 0, 64 * mb, 88 * mb}, // 56 would leave nothing to work in
		{1000 * mb, 2000 * mb, 0, 0, 8 * mb, 25 * mb},
		{1000 * mb, 250 * mb, 0, 0, 750 * mb, 782 * mb},
		{0, 5000 * mb, 256 * mb, 0, 10 * mb, 428 * mb},
		{0, 5000 * mb, 256 * mb, 250 * mb, 260 * mb, 428 * mb}, // whatever connections hold
		{0, 5000 * mb, 256 * mb, 256 * mb, 10 * mb, 408 * mb},
		{0, 5000 * mb, 8 * mb, 8 * mb, 90 * mb, 200 * mb}, // indexes have twice what they take, as without a limit
		{0, 5000 * mb, 256 * mb, 600 * mb, 600 * mb, 632 * mb},
	} {
		u := Use{MaxMemory: c.max, Posts: c.posts, Clients: c.clients, Held: c.held, live: c.live}
		if got := (Limit{}).of(u); got != c.want {
			t.Errorf("%+v: got %d, want %d", u, got, c.want)
		}
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var h Limit
	h.Look(Use{Posts: 5000 * mb})
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("without maxmemory: got a limit of %d, want %d as before", got, before)
	}
	h.Look(Use{MaxMemory: 8000 * mb, Posts: 3000 * mb})
	if got := debug.SetMemoryLimit(-1); got != 5024*mb {
		t.Errorf("got a limit of %d, want %d", got, 5024*mb)
	}
	h.Look(Use{Posts: 3000 * mb})
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("maxmemory taken away: got a limit of %d, want none", got)
	}
}
