package heap

import (
	"runtime/debug"
	"runtime/metrics"
)

// Releaser gives the Go heap's unused memory back to the system when a time of load has ended. The runtime does that
// over minutes and only while it allocates, and a server at rest does not: after 280,000 posts loaded in 0.3 s it held
// 8 MiB of log buffers, three times what the posts take. Used by the janitor alone.
//
// Loads of small commands allocate nothing either, so the runtime has no reason to collect: after one MGET of 16 MiB in
// the midst of 60,000 INCRs a second RSS was 98 MiB in the place of 36 for as long as those went on. So under load,
// memory that is far above the heap's usual size for some seconds is given back too, less often if the heap grows
// again.
//
// The first rest gives back the memory of the start, pages of the program included.
type Releaser struct {
	kept  uint64 // heap held when it was last given back; 0: it was not yet
	quiet int    // looks in a row without load
	high  int    // looks in a row with far more held than kept
	wait  int    // how many of those are needed beyond busyLooks
}

const (
	quietCommands = 1000    // a second; below it the server counts as at rest
	quietLooks    = 2       // seconds at rest, so that the log's last bytes are synced and their buffers free
	worthRelease  = 1 << 20 // bytes the heap must have grown, as it does by any load; giving back costs a collection, some 1 ms of a heap this small

	// Under load a heap grows to twice the memory in use before it is collected. That is no reason to release memory
	// earlier.
	busyFactor  = 2
	busyRelease = 16 << 20 // bytes beyond that
	busyLooks   = 4        // seconds
	mostWait    = 60       // seconds: a load that needs the memory again and again pays for a collection a minute
)

// Look is called each second with the rate of commands.
func (r *Releaser) Look(rate float64) {
	inUse := held()
	if rate >= quietCommands {
		r.quiet = 0
	} else {
		r.quiet++
	}
	if inUse < busyFactor*r.kept+busyRelease {
		r.high, r.wait = 0, max(r.wait-1, 0)
	} else {
		r.high++
	}
	switch {
	case r.quiet >= quietLooks && (r.kept == 0 || inUse >= r.kept+worthRelease):
	case r.high >= busyLooks+r.wait:
		r.wait = min(2*r.wait+busyLooks, mostWait)
	default:
		return
	}
	r.high = 0
	debug.FreeOSMemory()
	releaseProgram()
	r.kept = held()
}

// held is the memory that the Go heap has from the system, used or not.
func held() uint64 {
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
