package heap

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// Limit keeps the memory of the process near maxmemory. Posts and pages of cold files lie outside of the Go heap;
// indexes and buffers lie in it, and the collector lets it grow to twice the memory in use before it works. So it is
// told to work earlier, as soon as posts leave no more room. 1,000 M posts at maxmemory 3,072 MiB took 3,380 MiB
// without. Without maxmemory the limit keeps the memory of connections, garbage included, near one and a half times
// maxmemory-clients. Without a limit the heap stays at the peak of a flood: 890 MiB where 256 are allowed. Used by the
// janitor alone.
type Limit struct{ set int64 }

const (
	// slack is how far the Go heap and the posts together may pass maxmemory. With the program's own pages, and with
	// those of cold files that are mapped, that is less than 64 MiB.
	slack = 24 << 20
	// rest: the collector always has 16 MiB, and an eighth of the memory in use, 16 MiB at most, for garbage. Or it
	// would take the processors where connections hold much. Pages of cold files are no garbage, and nothing to look
	// through.
	share = 8
	rest  = 16 << 20
	// step is how much a new limit must differ from the present one to be set.
	step = 1 << 20
)

// Use is the input of the limit, in bytes.
type Use struct {
	MaxMemory, Posts int64 // the limit of posts, 0 for none, and their memory
	Clients, Held    int64 // the limit of connections, 0 for none, and their memory
	live             int64 // of the heap in use
}

// of is the limit. Without limits of posts and of connections there is none.
func (Limit) of(u Use) int64 {
	limit := int64(0)
	switch {
	case u.MaxMemory > 0:
		limit = u.MaxMemory + slack - u.Posts
	case u.Clients > 0:
		limit = u.Clients + u.Clients/2 + 2*max(0, u.live-u.Held) + slack
	default:
		return math.MaxInt64
	}
	return max(limit, u.live+min(u.live/share, rest)+rest)
}

// Look sets the limit. u.live is found here.
func (h *Limit) Look(u Use) {
	live := [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live[:])
	u.live = int64(live[0].Value.Uint64())
	limit := h.of(u)
	if limit > h.set-step && limit < h.set+step || limit == math.MaxInt64 && h.set == 0 {
		return
	}
	h.set = limit
	debug.SetMemoryLimit(limit)
}
