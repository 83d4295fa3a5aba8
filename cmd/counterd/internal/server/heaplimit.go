package server

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// heapLimit keeps what the process takes near maxmemory. Posts and pages of cold files lie outside of the Go heap; indexes
// and buffers lie in it, and the collector lets it grow to twice what is in use before it works. So it is told to work
// earlier, as soon as posts leave no more room. 1,000 M posts at maxmemory 3,072 MiB took 3,380 MiB without. Without
// maxmemory it is told to keep what connections hold, garbage included, near one and a half times maxmemory-clients: it
// went by the largest moment of a flood before, and took 890 MiB where 256 may be held. Used by the janitor alone.
type heapLimit struct{ set int64 }

const (
	// heapSlack is how far the Go heap and the posts together may pass maxmemory. With the program's own pages, and with
	// those of cold files that are mapped, that is less than 64 MiB.
	heapSlack = 24 << 20
	// heapRest: the collector always has 16 MiB, and an eighth of what is in use, 16 MiB at most, for garbage. Or it would
	// take the processors where connections hold much. Pages of cold files are no garbage, and nothing to look through.
	heapShare = 8
	heapRest  = 16 << 20
	// heapStep is how much the limit differs from what was set before it is set again.
	heapStep = 1 << 20
)

// heapUse is what the limit depends on, in bytes.
type heapUse struct {
	maxMemory, posts int64 // the limit of posts, 0 for none, and what they take
	clients, held    int64 // the limit of connections, 0 for none, and what they hold
	live             int64 // of the heap in use
}

// of is the limit. Without limits of posts and of connections there is none.
func (heapLimit) of(u heapUse) int64 {
	limit := int64(0)
	switch {
	case u.maxMemory > 0:
		limit = u.maxMemory + heapSlack - u.posts
	case u.clients > 0:
		limit = u.clients + u.clients/2 + 2*max(0, u.live-u.held) + heapSlack
	default:
		return math.MaxInt64
	}
	return max(limit, u.live+min(u.live/heapShare, heapRest)+heapRest)
}

// look sets the limit. u.live is found here.
func (h *heapLimit) look(u heapUse) {
	live := [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live[:])
	u.live = int64(live[0].Value.Uint64())
	limit := h.of(u)
	if limit > h.set-heapStep && limit < h.set+heapStep || limit == math.MaxInt64 && h.set == 0 {
		return
	}
	h.set = limit
	debug.SetMemoryLimit(limit)
}
