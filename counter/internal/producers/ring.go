package producers

import (
	"github.com/counterd/counterd/persist/format"
)

// Window is how many results of a producer are kept: a power of two.
const Window = 128

// entry is one seq and its result.
type entry struct {
	seq   uint64
	value uint64 // format.Result.N; of a blob: where it begins in the producer's buffer
	meta  uint32 // argument hash << 11 | kind << 8 | slot group
	size  uint32 // of the blob
}

// hashBits of a hash are kept; the log has as many.
const hashBits = 21

func newMeta(hash uint32, kind format.ResultKind, group uint8) uint32 {
	return hash<<(32-hashBits) | uint32(kind)<<8 | uint32(group)
}

func (e *entry) hash() uint32            { return e.meta >> (32 - hashBits) }
func (e *entry) kind() format.ResultKind { return format.ResultKind(e.meta >> 8 & 7) }
func (e *entry) group() uint8            { return uint8(e.meta) }

// ring is a producer's entries, ascending by seq: at most Window. Its array doubles from minRing entries on. An entry takes
// three words:
//
//	narrow   seq - base | value | meta
//	wide     seq, 2 words | value, 2 words | meta | size
//
// The first entry that does not fit makes the ring wide, and after Window that fit it is narrow again.
//
// Invariant: in a narrow ring all seqs are in [base, base+1<<32).
type ring struct {
	words []uint32 // a power of two of entries, or none
	base  uint64
	head  uint32 // of the lowest
	n     uint32
	room  uint32 // entries that words has room for
	wide  bool
}

const (
	minRing     = 4
	narrowWords = 3
	wideWords   = 6
	wordSize    = 4
	lowWord     = 1<<32 - 1
	// baseRoom is how far below its first seq the base of a narrow ring is: seqs out of order do not move it.
	baseRoom = 1 << 16
)

// stride is the words of an entry.
func (r *ring) stride() uint32 {
	if r.wide {
		return wideWords
	}
	return narrowWords
}

// place is where entry i begins.
func (r *ring) place(i uint32) uint32 { return ((r.head + i) & (r.room - 1)) * r.stride() }

// at is entry i.
func (r *ring) at(i uint32) entry {
	if w := r.words[r.place(i):]; r.wide {
		w = w[:wideWords]
		return entry{uint64(w[0]) | uint64(w[1])<<32, uint64(w[2]) | uint64(w[3])<<32, w[4], w[5]}
	} else {
		w = w[:narrowWords]
		return entry{seq: r.base + uint64(w[0]), value: uint64(w[1]), meta: w[2]}
	}
}

// set replaces entry i. REQUIRES: the ring is wide, or e fits.
func (r *ring) set(i uint32, e entry) {
	if w := r.words[r.place(i):]; r.wide {
		w = w[:wideWords]
		w[0], w[1], w[2], w[3], w[4], w[5] = uint32(e.seq), uint32(e.seq>>32), uint32(e.value), uint32(e.value>>32), e.meta, e.size
	} else {
		w = w[:narrowWords]
		w[0], w[1], w[2] = uint32(e.seq-r.base), uint32(e.value), e.meta
	}
}

// seqAt is the seq of entry i.
func (r *ring) seqAt(i uint32) uint64 {
	if at := r.place(i); r.wide {
		return uint64(r.words[at]) | uint64(r.words[at+1])<<32
	} else {
		return r.base + uint64(r.words[at])
	}
}

// highest is the highest seq. REQUIRES: there is one.
func (r *ring) highest() uint64 { return r.seqAt(r.n - 1) }

// find returns the number of the first entry that is not below seq, and whether that is seq.
func (r *ring) find(seq uint64) (i uint32, found bool) {
	if r.n == 0 || r.highest() < seq { // the usual case
		return r.n, false
	}
	lo, hi := uint32(0), r.n-1 // the answer is in [lo, hi]
	for lo < hi {
		if mid := (lo + hi) / 2; r.seqAt(mid) < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, r.seqAt(lo) == seq
}

// grown is the room with one more entry.
func (r *ring) grown() uint32 {
	switch {
	case r.n < r.room || r.room == Window:
		return r.room
	case r.room == 0:
		return minRing
	}
	return 2 * r.room
}

// cost is the memory of the array.
func (r *ring) cost() int64 { return int64(len(r.words)) * wordSize }

// costWith is the cost with one more entry; wide: that may not fit a narrow ring.
func (r *ring) costWith(wide bool) int64 {
	stride := int64(narrowWords)
	if wide || r.wide {
		stride = wideWords
	}
	return int64(r.grown()) * stride * wordSize
}

// fits tells whether a narrow ring can have e.
func (r *ring) fits(e *entry) bool {
	return e.seq-r.base <= lowWord && e.seq >= r.base && e.value <= lowWord && e.size == 0
}

// makeFit sees to it that the ring can have e: its base is moved, or it becomes wide.
func (r *ring) makeFit(e *entry) {
	if r.wide || r.fits(e) {
		return
	}
	low, high := e.seq, e.seq
	if r.n > 0 {
		low, high = min(low, r.seqAt(0)), max(high, r.highest())
	}
	base := max(low, baseRoom) - baseRoom
	r.copyTo(r.room, e.value > lowWord || e.size > 0 || high-base > lowWord, base)
}

// copyTo makes a new array.
func (r *ring) copyTo(room uint32, wide bool, base uint64) {
	old := *r
	*r = ring{base: base, n: old.n, room: room, wide: wide}
	r.words = make([]uint32, room*r.stride())
	for i := range old.n {
		r.set(i, old.at(i))
	}
}

// narrow makes a wide ring narrow, if all of its entries fit.
func (r *ring) narrow() {
	if !r.wide || r.n == 0 {
		return
	}
	as := ring{base: max(r.seqAt(0), baseRoom) - baseRoom}
	for i := range r.n {
		if e := r.at(i); !as.fits(&e) {
			return
		}
	}
	r.copyTo(r.room, false, as.base)
}

// shrink gives back memory that the entries do not need.
func (r *ring) shrink() {
	room := uint32(minRing)
	for room < r.n {
		room *= 2
	}
	if r.n == 0 {
		*r = ring{}
	} else if room < r.room {
		r.copyTo(room, r.wide, r.base)
	}
	r.narrow()
}

// insert puts e at number i, as find says. A ring that is full drops its lowest entry, which it returns. REQUIRES: a
// full ring's lowest entry is below e.
func (r *ring) insert(i uint32, e entry) (dropped entry, full bool) {
	if size := r.grown(); size != r.room {
		r.copyTo(size, r.wide, r.base)
	}
	if r.n == Window {
		dropped, full = r.removeLowest(), true
		i--
		if r.head == 0 {
			r.narrow()
		}
	}
	r.makeFit(&e)
	for k := r.n; k > i; k-- {
		r.set(k, r.at(k-1))
	}
	r.n++
	r.set(i, e)
	return dropped, full
}

// removeLowest takes the lowest entry out. REQUIRES: there is one.
func (r *ring) removeLowest() entry {
	e := r.at(0)
	r.head = (r.head + 1) & (r.room - 1)
	r.n--
	return e
}
