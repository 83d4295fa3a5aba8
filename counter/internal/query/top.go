package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/schema"
)

// MaxTop is the most rows that a Top may have: 1.6 MB.
const MaxTop = 100_000

// Top finds the k items of a query with the largest values of a column. Of items with the same value those with higher
// mids come first. Not safe for concurrent use.
//
// It first asks all blocks for a value that no item of theirs is above: a hot one for the largest in its overflow
// table, a cold one for the bounds of its file and the same of its overlay. Then it goes to the blocks, those with the
// largest such value first, until the least of k items found is above all that are left; pages are passed over in the
// same way.
type Top struct {
	Search Search
	k      int
	column int // of the span that grows
	best   ranking
	rows   Rows

	scans    bool // the posts themselves are looked at: no list that is kept has them, or none is asked
	from, to uint64
	at       uint64 // of the blocks that are asked
	asked    bool
	Parts    []topPart
	joined   *joinedTop // nil: the query has to do with no derived column
}

// topPart is the range of a block, and a value that no item in it is above.
type topPart struct {
	group        uint8
	lo, hi, most uint64
}

// NewTop prepares one; 1 <= k <= MaxTop. Query.Limit, Offset, Desc and Columns mean nothing. The error is a
// *QueryError.
func NewTop(q Query, column int16, k int) (*Top, error) {
	t := &Top{k: k}
	if k < 1 || k > MaxTop {
		return nil, &QueryError{fmt.Sprintf("the top %d, want 1 to %d", k, MaxTop)}
	}
	q.Limit, q.Offset, q.Desc, q.Columns = 0, 0, false, []int16{column}
	if q.usesDerived() {
		var err error
		t.joined, err = newJoinedTop(q, column, k)
		return t, err
	}
	if err := t.Search.Init(q, q.Columns); err != nil {
		return nil, err
	}
	s := &t.Search
	t.from, t.to, t.at, t.rows.width = s.Query.From, s.Query.To, s.Query.From, 2
	t.scans = !q.all()
	t.column = s.spanFor(int(column))
	s.sink, s.single = t.addRows, true
	if s.Over {
		t.asked = true
	} else if s.mids != nil {
		t.asked, t.Parts = true, []topPart{{0, t.from, t.to, math.MaxUint64}}
	}
	s.Over = true // until the first part
	return t, nil
}

// addRows ranks rows.
func (t *Top) addRows(rows *Rows) {
	for i := 0; i < len(rows.flat); i += 2 {
		t.best.add(Ranked{rows.flat[i+1], rows.flat[i]}, t.k)
	}
	if sp := &t.Search.spans[t.column]; len(t.best) == t.k && t.best[0].Value > sp.lo {
		t.Search.narrow(t.column, t.best[0].Value, sp.hi)
	}
}

// Step is Find.Step; the rows are known when it is done. An item whose value stays is ranked exactly, an item that changes
// meanwhile by some value it had.
func (t *Top) Step(b View) (done bool, err error) {
	if t.joined != nil {
		return t.joined.step(b, &t.rows)
	}
	s := &t.Search
	if !t.scans {
		t.scans = true
		return t.fromList(b)
	}
	if !t.asked {
		return false, t.askNext(b)
	}
	if s.Over {
		if !t.nextPart() {
			for _, r := range t.best.sorted() {
				t.rows.flat = append(t.rows.flat, r.Mid, r.Value)
			}
			t.best = nil
			return true, nil
		}
	}
	return false, s.Step(b, math.MaxInt, false)
}

// fromList asks the top list of the column for the rows, if the server keeps one.
func (t *Top) fromList(b View) (done bool, err error) {
	s := &t.Search
	if err := s.Bind(b); err != nil || s.Ks.Tops == nil {
		return false, err
	}
	l := s.Ks.Tops.Of[s.wanted[0]]
	if l == nil {
		return false, nil
	}
	top, seen, ok := l.Top(t.k)
	if !ok {
		return false, nil
	}
	b.NoteSeen(seen)
	t.rows.flat = make([]uint64, 0, 2*len(top))
	for _, e := range top {
		t.rows.flat = append(t.rows.flat, e.Mid, e.Value)
	}
	return true, nil
}

// Scan makes the search look at the posts, also where a list has them.
func (t *Top) Scan() {
	if t.scans = true; t.joined != nil {
		t.joined.scan()
	}
}

// nextPart has the search begin with the next block, if one can have a better item.
func (t *Top) nextPart() bool {
	if len(t.Parts) == 0 {
		return false
	}
	p := t.Parts[0]
	if len(t.best) == t.k && !t.best[0].Below(Ranked{p.most, p.hi}) {
		return false // and none of the others can
	}
	t.Parts = t.Parts[1:]
	t.Search.group = p.group
	t.Search.restart(p.lo, p.hi)
	return true
}

// askNext gets the parts.
func (t *Top) askNext(b View) error {
	s := &t.Search
	if err := s.Bind(b); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < StepTime; {
		blk := s.Ks.Lock(t.at)
		p := topPart{s.group, t.at, min(blk.Hi-1, t.to), mostOf(s.Ks, blk, s.wanted[0])}
		b.NoteSeen(blk.Logged)
		blk.Mu.Unlock()
		if !s.hidden(b) {
			t.Parts = append(t.Parts, p)
		}
		if p.hi >= t.to {
			if int(s.group)+1 < len(s.Space) {
				s.group++
				s.Ks, t.at = s.Space[s.group], t.from
				continue
			}
			t.asked = true
			slices.SortFunc(t.Parts, func(a, b topPart) int {
				return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(b.hi, a.hi))
			})
			return nil
		}
		t.at = p.hi + 1
	}
	return nil
}

// mostOf returns a value that no item of a block is above in column c. REQUIRES b.Mu held.
func mostOf(ks *block.Keyspace, b *block.Block, c int) uint64 {
	col := &ks.Def.Columns[c]
	most := uint64(0)
	if b.Tab.Len() > 0 {
		if f := ks.Field(b, c); f >= 0 {
			most = b.Tab.Most(f)
		} else {
			most = col.Default
		}
	}
	if b.Cold == nil {
		return most
	}
	if at, ok := b.Cold.File.Meta().Column(col.ID); ok {
		_, high := b.Cold.File.Bounds(at)
		most = max(most, high)
	} else {
		most = max(most, col.Default)
	}
	if b.Cold.File.Err() != nil || len(b.Cold.Partial) > 0 {
		most = schema.MaxValue
	}
	return most
}

// Rows are mid and value of the items found, the best first. REQUIRES that Step is done.
func (t *Top) Rows() *Rows { return &t.rows }

// Ranked is an item and the value it is ranked by.
type Ranked struct{ Value, Mid uint64 }

func (r Ranked) Below(x Ranked) bool { return r.Value < x.Value || r.Value == x.Value && r.Mid < x.Mid }

// ranking holds the best so far, as a heap: the least of them at [0].
type ranking []Ranked

// add takes r if it is one of the k best.
func (h *ranking) add(r Ranked, k int) {
	s := *h
	if len(s) < k {
		s = append(s, r)
		i := len(s) - 1
		for i > 0 && s[i].Below(s[(i-1)/2]) {
			s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
			i = (i - 1) / 2
		}
		*h = s
		return
	}
	if !s[0].Below(r) {
		return
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(s) {
			break
		}
		if c+1 < len(s) && s[c+1].Below(s[c]) {
			c++
		}
		if !s[c].Below(r) {
			break
		}
		s[i] = s[c]
		i = c
	}
	s[i] = r
}

// sorted puts the best first. It is no heap any more.
func (h ranking) sorted() ranking {
	slices.SortFunc(h, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.Mid, a.Mid))
	})
	return h
}
