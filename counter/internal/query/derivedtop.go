package query

import (
	"slices"

	"github.com/counterd/counterd/schema"
)

// joinedTop finds the posts with the largest values of a query that uses derived columns. Where they are to be the largest of a derived column
// itself, the posts with additions in its window come first; only if they are too few, the newest of the others follow, which all
// have 0.
//
// The posts with the largest values of a column that decays are those with the largest stored sums (package decay), at each moment. Where all posts
// are asked for, they are the top of the space, which may keep a list of them. Posts whose values are the same whole number are ranked by
// their sums.
type joinedTop struct {
	q      Query
	column int16
	k      int
	some   bool // the present search finds posts with additions alone, and another may follow
	search *joined
	sums   *Top            // the top of the space of a column that decays, before search finds those that are worth nothing; nil: search finds all
	of     *schema.Derived // the column in the schema in force, if it decays and there was a post
	listed bool            // the list of a window's sums is asked first, before search finds the posts
	best   ranking
	ranked map[uint64]bool // mids of the first search: their window may have ended since
}

func newJoinedTop(q Query, column int16, k int) (t *joinedTop, err error) {
	t = &joinedTop{q: q, column: column, k: k}
	if err := CheckColumn(&q, column); err != nil {
		return nil, err
	}
	if t.some = q.Counter.IsDerived(int(column)); t.some {
		q.Where = append(slices.Clone(q.Where), Condition{column, Greater, 0})
	}
	if t.search, err = newJoined(q); err != nil || !t.decays() {
		t.listed = t.some && t.q.all()
		return t, err
	}
	t.search.exact = true
	if t.q.all() {
		t.sums, err = NewTop(Query{Counter: t.q.Counter.Derived[t.place()].Space, To: schema.MaxMid}, schema.DecayedSum, k)
	}
	return t, err
}

// place is the index of the column in Counter.Derived; negative: it is not derived.
func (t *joinedTop) place() int { return int(t.column) - len(t.q.Counter.Columns) }

// decays tells whether the column decays.
func (t *joinedTop) decays() bool { return t.place() >= 0 && t.q.Counter.Derived[t.place()].Decays() }

// scan has the search look at the posts, also where a list has them.
func (t *joinedTop) scan() { t.sums, t.listed = nil, false }

// askList asks the list of the window's sums for the posts, if the server keeps one. Where it does not have k, as there are no more, all posts with additions
// in the window are ranked.
func (t *joinedTop) askList(b View) (done bool, err error) {
	t.listed = false
	if err := t.search.bind(b); err != nil {
		return false, err
	}
	tops := b.Space(t.search.derived[t.place()].Space.ID)[0].Tops
	if tops == nil || tops.Sum == nil {
		return false, nil
	}
	top, seen, ok := tops.Sum.Top(t.k)
	if !ok {
		return false, nil
	}
	b.NoteSeen(seen)
	for _, e := range top {
		t.best.add(Ranked{e.Value, e.Mid}, t.k)
	}
	return true, nil
}

// stepSums is a step of sums, and tells whether all that are worth anything are ranked.
func (t *joinedTop) stepSums(b View) (done bool, err error) {
	if err := t.search.bind(b); err != nil {
		return false, err
	}
	t.of = t.search.derived[t.place()]
	if done, err = t.sums.Step(b); !done {
		return false, err
	}
	for i := range t.sums.Rows().Len() {
		mid, values := t.sums.Rows().At(i)
		if t.of.Sum(values, b.Time()) == 0 {
			break
		}
		t.best.add(Ranked{values[0], mid}, t.k)
	}
	t.sums = nil
	return true, nil
}

// step is Top.Step. The rows are put in found.
func (t *joinedTop) step(b View, found *Rows) (done bool, err error) {
	switch {
	case t.listed:
		if done, err = t.askList(b); !done {
			return false, err
		}
	case t.sums != nil:
		if done, err = t.stepSums(b); !done {
			return false, err
		}
	default:
		if done, err = t.search.step(b); err != nil {
			return false, err
		}
	}
	if t.search.rows.Len() > 0 && t.decays() {
		t.of = t.search.derived[t.place()]
	}
	for i := range t.search.rows.Len() {
		if mid, values := t.search.rows.At(i); !t.ranked[mid] {
			t.best.add(Ranked{values[0], mid}, t.k)
		}
	}
	if !done {
		return false, nil
	}
	if t.some && len(t.best) < t.k {
		t.some, t.ranked = false, make(map[uint64]bool)
		for _, r := range t.best {
			t.ranked[r.Mid] = true
		}
		q := t.q
		q.Where = append(slices.Clone(q.Where), Condition{t.column, Equal, 0})
		q.Desc, q.Limit = true, t.k
		t.search, err = newJoined(q)
		return false, err
	}
	SetColumns(found, 1)
	for _, r := range t.best.sorted() {
		if t.of != nil && r.Value > 0 {
			r.Value = t.of.Sum([]uint64{r.Value}, b.Time())
		}
		found.flat = append(found.flat, r.Mid, r.Value)
	}
	return true, nil
}
