package coldstore

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Residency: which pages of a file the kernel probably has in memory.
//
// A batch of lookups asks the disk for all its pages before it waits for the first one (File.Prefetch). But an madvise costs
// 1 us on a page that is there already, more than reading it (0.5 us). So each file remembers which pages were read since
// memory was last found to have been taken away, and asks only for the others. Memory counts as taken away when the copy
// of a page that is believed to be resident takes over slowRead. That starts a new generation, in which all files forget
// what they believed. The belief is a hint: a wrong one costs time only.
type residency struct {
	since atomic.Uint32   // the generation of seen
	seen  []atomic.Uint32 // bit per page
}

// generation counts how often memory was found to have been taken away. It is the process's, as the kernel's memory
// is.
var generation atomic.Uint32

// slowRead tells a copy from memory (0.4 us, some 10 us when interrupted) from a disk (60 us and more).
const slowRead = 50 * time.Microsecond

func (r *residency) init(pages int) { r.seen = make([]atomic.Uint32, (pages+31)/32) }

// believed says whether page i was read in generation now.
func (r *residency) believed(now uint32, i int) bool {
	return r.since.Load() == now && r.seen[i>>5].Load()>>(i&31)&1 == 1
}

// note remembers that page i was read in generation now.
func (r *residency) note(now uint32, i int) {
	if g := r.since.Load(); g != now {
		if r.since.CompareAndSwap(g, now) {
			for k := range r.seen {
				r.seen[k].Store(0)
			}
		}
	}
	r.seen[i>>5].Or(1 << (i & 31))
}

// Prefetcher is an optional interface of a vfs.FS: it starts reading a range of a file without waiting for it. Where it is
// missing, the mapping is advised.
type Prefetcher interface {
	Prefetch(name string, off, n int64) error
}

// osPage is the unit of the kernel's advice calls; where pages are larger the calls fail, which is harmless.
const osPage = 4096

// aligned widens data[off:off+n] to whole pages. ok is false when the slice is no mapping (they begin on a page).
func aligned(data []byte, off, n int64) (b []byte, ok bool) {
	if len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))&(osPage-1) != 0 {
		return nil, false
	}
	start := off &^ (osPage - 1)
	return data[start : off+n], true
}
