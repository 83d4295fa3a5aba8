package core

import "math"

// Bounds are those of an addition: the result is in [Lo, Hi], and in what the column holds. Outside of them the addition
// is not made, or, with Saturate, made as far as the nearer bound.
type Bounds struct {
	Lo, Hi   int64
	Saturate bool
}

// Unbounded lets every value pass that the column holds.
var Unbounded = Bounds{Lo: math.MinInt64, Hi: math.MaxInt64}

// bounded is what an OpAddWithin has beside its Op.
type bounded struct {
	Bounds
	applied int64
}

// AddWithin is Add of an OpAddWithin: column += int64(Arg) within bounds (INCREX of Redis 8.8). Value is the new value,
// or, where the addition was not made, what the column is; Applied tells what was added. An addition that is not made
// is no error: Done is false, and an item that is not there is not made.
func (b *Batch) AddWithin(op Op, bounds Bounds) int {
	op.Kind, op.row = OpAddWithin, int32(len(b.within))
	b.within = append(b.within, bounded{Bounds: bounds})
	return b.Add(op)
}

// Applied is what an OpAddWithin has added: 0 where nothing was.
func (b *Batch) Applied(op *Op) int64 {
	if op.Kind != OpAddWithin {
		return 0
	}
	return b.within[op.row].applied
}

// add returns v+n within the bounds and limit; false: it is not to be made.
func (w *Bounds) add(v uint64, n int64, limit uint64) (uint64, bool) {
	lo, hi := max(w.Lo, 0), min(w.Hi, int64(limit))
	if lo > hi {
		return 0, false
	}
	sum, over := int64(v)+n, n > 0 && n > math.MaxInt64-int64(v) // v is at most MaxInt64: only upwards
	switch {
	case over || sum > hi:
		return uint64(hi), w.Saturate
	case sum < lo:
		return uint64(lo), w.Saturate
	}
	return uint64(sum), true
}

// add returns v + n, and whether it is in [0, limit]. limit is at most 2^63-1.
func add(v uint64, n int64, limit uint64) (uint64, bool) {
	if n < 0 {
		less := uint64(-(n + 1)) + 1 // -n, also for -2^63
		if less > v {
			return 0, false
		}
		return v - less, true
	}
	if uint64(n) > limit || v > limit-uint64(n) {
		return 0, false
	}
	return v + uint64(n), true
}
