package page

import (
	"slices"
)

// sparse has the rows of a page that differ from its common row, and histograms of their values, for a number of rows
// that goes up and down while a page is fitted: each step costs the rows that come or go. 70-88 % of the rows of real
// posts are the common one, all zeros, and are looked at once, to find that out.
type sparse struct {
	common []uint64
	seen   int     // rows looked at
	all    []int32 // of those, that differ
	n      int     // rows taken
	live   []int32 // of those, that differ: a prefix of all
	counts []sparseCounts
}

// sparseCounts is the histogram of one column's values in the live rows.
type sparseCounts struct {
	small [256]int32
	big   []uint64 // in the order of the rows
}

// startPage starts with no rows.
func (s *sparse) startPage(common []uint64) {
	s.common = append(s.common[:0], common...)
	s.seen, s.all, s.n, s.live = 0, s.all[:0], 0, nil
	if len(s.counts) != len(common) {
		s.counts = make([]sparseCounts, len(common))
	}
	for c := range s.counts {
		s.counts[c].small = [256]int32{}
		s.counts[c].big = s.counts[c].big[:0]
	}
}

// findLive finds the live ones among the first n rows. It has no branch that depends on them, as a processor would guess
// every third wrong.
func (s *sparse) findLive(columns [][]uint64, n int) {
	k := len(s.all)
	s.all = slices.Grow(s.all, n-s.seen+1)[:k+n-s.seen+1]
	if len(columns) == 3 { // the usual number
		x, y, z := columns[0][:n], columns[1][:n], columns[2][:n]
		a, b, c := s.common[0], s.common[1], s.common[2]
		for i := s.seen; i < n; i++ {
			s.all[k] = int32(i)
			k += nonzero((x[i] ^ a) | (y[i] ^ b) | (z[i] ^ c))
		}
	} else {
		for i := s.seen; i < n; i++ {
			diff := uint64(0)
			for c, col := range columns {
				diff |= col[i] ^ s.common[c]
			}
			s.all[k] = int32(i)
			k += nonzero(diff)
		}
	}
	s.all, s.seen = s.all[:k], n
}

// nonzero is 1 if x is not 0.
func nonzero(x uint64) int { return int((x | -x) >> 63) }

// setRows makes it the first n rows.
func (s *sparse) setRows(columns [][]uint64, n int) {
	if n > s.seen {
		s.findLive(columns, n)
	}
	m, _ := slices.BinarySearch(s.all, int32(n))
	was := len(s.live)
	for c := range s.counts {
		k, col := &s.counts[c], columns[c]
		for _, i := range s.all[min(was, m):m] {
			if v := col[i]; v < 256 {
				k.small[v]++
			} else {
				k.big = append(k.big, v)
			}
		}
		for _, i := range s.all[m:max(was, m)] {
			if v := col[i]; v < 256 {
				k.small[v]--
			} else {
				k.big = k.big[:len(k.big)-1]
			}
		}
	}
	s.live, s.n = s.all[:m], n
}

// tally makes t the histogram of column c: of the live rows, or of all.
func (s *sparse) tally(t *tally, c int, whole bool) {
	k := &s.counts[c]
	t.val, t.below, t.big = t.val[:0], t.below[:0], append(t.big[:0], k.big...)
	common, more := s.common[c], int32(0) // more rows have the common value
	if whole {
		more = int32(s.n - len(s.live))
	}
	sum := int32(0)
	for x, n := range k.small {
		if more > 0 && uint64(x) == common {
			n += more
		}
		if n > 0 {
			t.val, t.below = append(t.val, uint64(x)), append(t.below, sum)
			sum += n
		}
	}
	if more > 0 && common >= 256 {
		t.big = append(t.big, common)
		more--
	} else {
		more = 0
	}
	slices.Sort(t.big)
	for i, x := range t.big {
		if i == 0 || x != t.big[i-1] {
			t.val, t.below = append(t.val, x), append(t.below, sum)
			if x == common {
				sum += more
			}
		}
		sum++
	}
	t.below = append(t.below, sum)
}
