package server

import (
	"runtime/debug"
	"runtime/metrics"
)

// releaser gives the Go heap's unused memory back to the system when a time of load has ended. The runtime does that
// over minutes and only while it allocates, and a server at rest does not: after 280,000 posts loaded in 0.3 s it held
// 8 MiB of log buffers, three times what the posts take. Used by the janitor alone.
type releaser struct {
	kept  uint64 // heap held when it was last given back
	quiet int    // looks in a row without load
}

const (
	quietCommands = 1000    // a second; below it the server counts as at rest
	quietLooks    = 2       // seconds at rest, so that the log's last bytes are synced and their buffers free
	worthRelease  = 4 << 20 // bytes the heap must have grown; giving back costs a collection, some 1 ms of a heap this small
)

// look is called each second with the rate of commands.
func (r *releaser) look(rate float64) {
	if rate >= quietCommands {
		r.quiet = 0
		return
	}
	if r.quiet++; r.quiet < quietLooks || heapHeld() < r.kept+worthRelease {
		return
	}
	debug.FreeOSMemory()
	r.kept = heapHeld()
}

// heapHeld is what the Go heap takes of the system, used or not.
func heapHeld() uint64 {
	held := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(held)
	var sum uint64
	for _, s := range held {
		sum += s.Value.Uint64()
	}
	return sum
}
