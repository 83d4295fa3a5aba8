package page

import (
	"slices"
)

// tally is the histogram of a column's values, ready to answer how many lie below a bound.
type tally struct {
	val   []uint64 // distinct values, ascending
	below []int32  // below[i]: how many values are less than val[i]; one more element at the end: all
	small [256]int32
	big   []uint64
}

// count makes t the histogram of the n values v(i), n >= 1.
func (t *tally) count(v []uint64) {
	t.small = [256]int32{}
	t.big, t.val, t.below = t.big[:0], t.val[:0], t.below[:0]
	for _, x := range v {
		if x < 256 { // all but 1 in 200 values of real posts: no sort for them
			t.small[x]++
		} else {
			t.big = append(t.big, x)
		}
	}
	sum := int32(0)
	for x, c := range t.small {
		if c > 0 {
			t.val, t.below = append(t.val, uint64(x)), append(t.below, sum)
			sum += c
		}
	}
	slices.Sort(t.big)
	for i, x := range t.big {
		if i == 0 || x != t.big[i-1] {
			t.val, t.below = append(t.val, x), append(t.below, sum)
		}
		sum++
	}
	t.below = append(t.below, sum)
}

// lowerBound returns the index of the first distinct value >= x at or behind index from.
func (t *tally) lowerBound(from int, x uint64) int {
	lo, hi := from, len(t.val)
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); t.val[m] < x {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// mode returns the most frequent value and its count.
func (t *tally) mode() (v uint64, n int) {
	for i, x := range t.val {
		if c := int(t.below[i+1] - t.below[i]); c > n {
			v, n = x, c
		}
	}
	return v, n
}
