package counter

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxTop is the most rows that a Top may have: 1.6 MB.
const MaxTop = 100_000

// Top finds the k items of a query with the largest values of a column. Of items with the same value those with higher
// mids come first. Not safe for concurrent use.
type Top struct {
	search search
	k      int
	best   ranking
	rows   Rows
}

// NewTop prepares one; 1 <= k <= MaxTop. Query.Limit, Offset, Desc and Columns mean nothing. The error is a
// *QueryError.
func NewTop(q Query, column int16, k int) (*Top, error) {
	t := &Top{k: k}
	if k < 1 || k > MaxTop {
		return nil, &QueryError{fmt.Sprintf("the top %d, want 1 to %d", k, MaxTop)}
	}
	q.Limit, q.Offset, q.Desc, q.Columns = 0, 0, true, []int16{column}
	return t, t.search.init(q, q.Columns)
}

// Step is Find.Step; the rows are known when it is done. An item whose value stays is ranked exactly, one that changes
// meanwhile by some value it had.
func (t *Top) Step(b *Batch) (done bool, err error) {
	if err := t.search.step(b, stepRows); err != nil {
		return false, err
	}
	rows := &t.search.rows
	for i := range rows.Len() {
		mid, values := rows.At(i)
		t.best.add(ranked{values[0], mid}, t.k)
	}
	if !t.search.over {
		return false, nil
	}
	t.rows.width, t.rows.flat = 2, t.rows.flat[:0]
	for _, r := range t.best.sorted() {
		t.rows.flat = append(t.rows.flat, r.mid, r.value)
	}
	return true, nil
}

// Rows are mid and value of the items found, the best first. REQUIRES that Step is done.
func (t *Top) Rows() *Rows { return &t.rows }

// Top is NewTop and all its steps.
func (s *Store) Top(q Query, column int16, k int) (*Rows, error) {
	t, err := NewTop(q, column, k)
	if err != nil {
		return nil, err
	}
	return t.Rows(), s.steps(t.Step, func() bool { return true })
}

// ranked is an item and what it is ranked by.
type ranked struct{ value, mid uint64 }

func (r ranked) below(x ranked) bool { return r.value < x.value || r.value == x.value && r.mid < x.mid }

// ranking holds the best so far, as a heap: the least of them at [0].
type ranking []ranked

// add takes r if it is one of the k best.
func (h *ranking) add(r ranked, k int) {
	s := *h
	if len(s) < k {
		s = append(s, r)
		i := len(s) - 1
		for i > 0 && s[i].below(s[(i-1)/2]) {
			s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
			i = (i - 1) / 2
		}
		*h = s
		return
	}
	if !s[0].below(r) {
		return
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(s) {
			break
		}
		if c+1 < len(s) && s[c+1].below(s[c]) {
			c++
		}
		if !s[c].below(r) {
			break
		}
		s[i] = s[c]
		i = c
	}
	s[i] = r
}

// sorted puts the best first. It is no heap any more.
func (h ranking) sorted() ranking {
	slices.SortFunc(h, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.mid, a.mid))
	})
	return h
}
