package persist

import "math/bits"

// histogramBuckets is the number of buckets of a Histogram: the last but one ends at 2^23, of microseconds 8 s, of bytes
// 8 MiB.
const histogramBuckets = 25

// Histogram counts values in buckets: i has those of more than 2^(i-1) and at most 2^i, the last one all that are
// larger. Adding takes a nanosecond or two.
type Histogram struct {
	Buckets [histogramBuckets]uint64
	Sum     uint64
}

func (h *Histogram) add(v uint64) {
	h.Buckets[min(bits.Len64(max(v, 1)-1), histogramBuckets-1)]++
	h.Sum += v
}
