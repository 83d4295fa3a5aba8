package server

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// heapLimit keeps what the process takes near maxmemory. Posts and pages of cold files lie outside of the Go heap; indexes
// and buffers lie in it, and the collector lets it grow to twice what is in use before it works. So it is told to work
// earlier, as soon as posts leave no more room. 1,000 M posts at maxmemory 3,072 MiB took 3,380 MiB without. Used by the
// janitor alone.
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

// of is the limit where posts take so much and so much of the heap is in use. maxmemory 0 is no limit.
func (heapLimit) of(maxMemory, posts, live int64) int64 {
	if maxMemory == 0 {
		return math.MaxInt64
	}
	return max(maxMemory+heapSlack-posts, live+min(live/heapShare, heapRest)+heapRest)
}

// look sets the limit.
func (h *heapLimit) look(maxMemory, posts int64) {
	live := [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live[:])
	limit := h.of(maxMemory, posts, int64(live[0].Value.Uint64()))
	if limit > h.set-heapStep && limit < h.set+heapStep || limit == math.MaxInt64 && h.set == 0 {
		return
	}
	h.set = limit
	debug.SetMemoryLimit(limit)
}
