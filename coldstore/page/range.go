package page

import (
	"slices"
)

// Range is a condition on the column at position Col: values from Lo to Hi, but none of Not.
type Range struct {
	Col    int
	Lo, Hi uint64
	Not    []uint64
}

func (r *Range) Holds(v uint64) bool {
	return v-r.Lo <= r.Hi-r.Lo && (len(r.Not) == 0 || !slices.Contains(r.Not, v))
}

// Among appends the numbers of the values that meet r, counted from first on.
func (r *Range) among(dst []int32, vals []uint64, first int) []int32 {
	at := len(dst)
	dst = slices.Grow(dst, len(vals))
	out := dst[at : at+len(vals)]
	lo, width, k := r.Lo, r.Hi-r.Lo, 0
	if len(r.Not) > 0 {
		for i, v := range vals {
			if r.Holds(v) {
				out[k] = int32(first + i)
				k++
			}
		}
		return dst[:at+k]
	}
	for i, v := range vals {
		out[k] = int32(first + i) // a branch would be taken by chance
		if v-lo <= width {
			k++
		}
	}
	return dst[:at+k]
}

// Refine leaves of the numbers from dst[at] on those whose values meet r.
func (r *Range) Refine(dst []int32, at int, vals []uint64) []int32 {
	k := at
	for _, i := range dst[at:] {
		if r.Holds(vals[i]) {
			dst[k] = i
			k++
		}
	}
	return dst[:k]
}
