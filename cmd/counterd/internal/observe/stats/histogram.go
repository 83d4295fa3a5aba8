package stats

import (
	"math"
	"math/bits"
	"time"
)

const (
	// Powers is the number of powers of two, in microseconds, that a histogram covers: 1 us to 2^24 us, 16.8 seconds.
	Powers = 25
	// Buckets is the number of buckets of a histogram: four for each power of two, so that a bound is at most 25 %
	// above the times that it stands for. Bounds that double show a change of latency only when it doubles.
	Buckets = 4 * Powers
	// quarter is the width of the first buckets.
	quarter = time.Microsecond / 4
)

// Histogram counts executions by their time: in quarters of a microsecond up to 1 us, then in quarters of each power of
// two. The last bucket also counts all longer executions. Counting takes one atomic addition for a run of equal commands.
// Commands of a batch are counted with their share of the batch's time, as in "usec" of INFO commandstats.
type Histogram [Buckets]int64

// BucketOf returns the bucket of executions that take some time each. With q quarters of a microsecond, its two leading
// bits below the highest one choose among the four buckets of q's power of two.
func BucketOf(each time.Duration) int {
	q := uint64(max(each-1, 0) / quarter)
	if q < 4 {
		return int(q)
	}
	n := bits.Len64(q)
	return min(4*(n-2)+int(q>>(n-3)&3), Buckets-1)
}

// Bound returns the longest time that bucket i counts; the last bucket has no such bound.
func Bound(i int) time.Duration {
	if i < 4 {
		return time.Duration(i+1) * quarter
	}
	return time.Duration(i%4+5) << (i/4 - 1) * quarter
}

// PowerBound returns the longest time of power of two i, in microseconds.
func PowerBound(i int) int64 { return 1 << i }

// ByPower returns the executions by power of two: element i counts those of more than 2^(i-1) and at most 2^i microseconds.
// LATENCY HISTOGRAM and the metrics have these bounds.
func (h *Histogram) ByPower() (counts [Powers]uint64) {
	for i, n := range h {
		counts[i/4] += uint64(n)
	}
	return counts
}

// Bucket returns the number of the bucket that p of all executions, 0..1, do not exceed; false: there are no executions.
func (h *Histogram) Bucket(p float64) (int, bool) {
	total := int64(0)
	for _, n := range h {
		total += n
	}
	rest := int64(math.Ceil(p * float64(total)))
	for i, n := range h {
		if rest -= n; n > 0 && rest <= 0 {
			return i, true
		}
	}
	return Buckets - 1, false
}

// Percentile returns the bound of the bucket that p of all executions, 0..1, do not exceed. Without executions it returns
// the bound of the last bucket.
func (h *Histogram) Percentile(p float64) time.Duration {
	i, _ := h.Bucket(p)
	return Bound(i)
}
