package producers

import (
	"unsafe"

	"github.com/counterd/counterd/persist/format"
)

// Window is how many seqs of a producer are kept: a power of two.
const Window = 128

// entry is one seq and its result.
type entry struct {
	seq   uint64
	value uint64 // format.Result.N; of a blob: where it begins in the producer's buffer
	meta  uint32 // argument hash << 11 | kind << 8 | slot group
	size  uint32 // of the blob
}

const entrySize = int(unsafe.Sizeof(entry{}))

var _ [24 - entrySize]struct{} // the size that Limits are made for
var _ [entrySize - 24]struct{}

// hashBits of a hash are kept; the log has as many.
const hashBits = 21

func newMeta(hash uint32, kind format.ResultKind, group uint8) uint32 {
	return hash<<(32-hashBits) | uint32(kind)<<8 | uint32(group)
}

func (e *entry) hash() uint32            { return e.meta >> (32 - hashBits) }
func (e *entry) kind() format.ResultKind { return format.ResultKind(e.meta >> 8 & 7) }
func (e *entry) group() uint8            { return uint8(e.meta) }

// ring is a producer's entries, ascending by seq: at most Window, the highest. Its array doubles from minRing on.
type ring struct {
	buf  []entry // length a power of two, or 0
	head uint32  // of the lowest
	n    uint32
}

const minRing = 4

func (r *ring) at(i uint32) *entry { return &r.buf[(r.head+i)&uint32(len(r.buf)-1)] }

func (r *ring) highest() *entry { return r.at(r.n - 1) }

// find returns the number of the first entry that is not below seq, and whether that is seq.
func (r *ring) find(seq uint64) (i uint32, found bool) {
	if r.n == 0 || r.highest().seq < seq { // the usual case
		return r.n, false
	}
	lo, hi := uint32(0), r.n-1 // the answer is in [lo, hi]
	for lo < hi {
		if mid := (lo + hi) / 2; r.at(mid).seq < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, r.at(lo).seq == seq
}

// grown is the length of the array with one more entry.
func (r *ring) grown() int {
	switch {
	case int(r.n) < len(r.buf) || len(r.buf) == Window:
		return len(r.buf)
	case len(r.buf) == 0:
		return minRing
	}
	return 2 * len(r.buf)
}

// insert puts e at number i, as find says. A ring that is full drops its lowest entry, which it returns. REQUIRES: a
// full ring's lowest entry is below e.
func (r *ring) insert(i uint32, e entry) (dropped entry, full bool) {
	if size := r.grown(); size != len(r.buf) {
		buf := make([]entry, size)
		for k := range r.n {
			buf[k] = *r.at(k)
		}
		r.buf, r.head = buf, 0
	}
	if r.n == Window {
		dropped, full = *r.at(0), true
		r.head = (r.head + 1) & (Window - 1)
		r.n--
		i--
	}
	for k := r.n; k > i; k-- {
		*r.at(k) = *r.at(k - 1)
	}
	r.n++
	*r.at(i) = e
	return dropped, full
}

// removeLowest takes the lowest entry out. REQUIRES: there is one.
func (r *ring) removeLowest() entry {
	e := *r.at(0)
	r.head = (r.head + 1) & uint32(len(r.buf)-1)
	r.n--
	return e
}
