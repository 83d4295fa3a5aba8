package query

import (
	"slices"
	"time"

	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

// joined finds the rows of a query that uses derived columns, a step at a time, in the order of the query. Their values are in the space of each
// (schema.Derived), so two searches are joined by mid:
//
//	posts    goes over the posts that meet the conditions on other columns, and looks up each in the spaces
//	space    where a condition on a derived column excludes 0: goes over the items of its space, which are few, and looks up
//	         the posts of those that meet it
//
// A post and its counts are read one after the other: where it changes in between, the row has values of two moments.
//
// Invariant: ready are rows that were found and not given out yet. All posts before walk's next mid are found, but for those of list.
type joined struct {
	q       Query   // as it was given, with all columns of the rows
	spans   []span  // conditions on derived columns
	wanted  []int16 // columns of posts that the inner searches return
	walk    Find    // over posts, or over the space of column drive
	drive   int16   // index for Counter.Col; -1: over posts
	list    *Find   // of the posts of some items of the space; nil: none
	listed  []uint64
	ready   Rows
	rows    Rows
	derived []*schema.Derived // of the schema in force, by index in q.Counter.Derived; nil: it is not used, or was dropped
	row     []uint64
	sums    []uint64 // beside row: the stored sums of columns that decay
	exact   bool     // rows have these sums, which rank more finely, where they are worth anything
	none    bool     // no post can meet the conditions
	skip    int
	left    int
	lists   bool // the next step is the first, and asks the top list of column drive
	byList  bool // the list had the posts
}

// usesDerived tells whether the query has to do with derived columns.
func (q *Query) usesDerived() bool {
	of := func(c int16) bool { return c >= 0 && q.Counter.IsDerived(int(c)) }
	return q.Counter != nil && len(q.Counter.Derived) > 0 &&
		(q.Columns == nil || slices.ContainsFunc(q.Columns, of) || slices.ContainsFunc(q.Where, func(c Condition) bool { return of(c.Column) }))
}

// newJoined prepares one. REQUIRES q.usesDerived.
func newJoined(q Query) (*joined, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	j := &joined{q: q, drive: -1, skip: q.Offset, left: q.Limit, derived: make([]*schema.Derived, len(q.Counter.Derived))}
	if j.q.Columns == nil {
		for c := range q.Counter.Width() {
			j.q.Columns = append(j.q.Columns, int16(c))
		}
	}
	SetColumns(&j.rows, len(j.q.Columns))
	SetColumns(&j.ready, len(j.q.Columns))
	inner, on := q, q
	inner.Where, on.Where, inner.Limit, inner.Offset = nil, nil, 0, 0
	for _, c := range q.Where {
		if q.Counter.IsDerived(int(c.Column)) {
			on.Where = append(on.Where, c)
		} else {
			inner.Where = append(inner.Where, c)
		}
	}
	spans, any := on.spans()
	j.spans, j.none = spans, !any
	inner.Columns = []int16{}
	for _, c := range j.q.Columns {
		if !q.Counter.IsDerived(int(c)) {
			inner.Columns = append(inner.Columns, c)
		}
	}
	j.wanted = inner.Columns
	for i := range spans {
		if !spans[i].holds(0) {
			j.drive = int16(spans[i].column)
			break
		}
	}
	if j.drive >= 0 {
		space := q.Counter.Derived[int(j.drive)-len(q.Counter.Columns)].Space
		inner = Query{Counter: space, From: q.From, To: q.To, Mids: q.Mids, NotMids: q.NotMids, Desc: q.Desc}
	}
	return j, j.walk.init(inner)
}

// step is Find.Step.
func (j *joined) step(b View) (done bool, err error) {
	Clear(&j.rows)
	if j.none {
		return true, nil
	}
	if err := j.bind(b); err != nil {
		return false, err
	}
	if j.lists {
		j.lists = false
		if err := j.narrow(b); err != nil {
			return false, err
		}
	}
	over := false
	for began := time.Now(); j.ready.Len() == 0 && !over && time.Since(began) < StepTime; {
		if over, err = j.find(b); err != nil && j.ready.Len() == 0 {
			return false, err
		}
	}
	n := min(j.skip, j.ready.Len())
	j.ready.drop(n)
	j.skip -= n
	n = j.ready.Len()
	if j.q.Limit > 0 {
		n = min(n, j.left)
		j.left -= n
	}
	j.rows.flat = append(j.rows.flat, j.ready.flat[:n*j.ready.width]...)
	j.ready.drop(n)
	return j.q.Limit > 0 && j.left == 0 || over && j.ready.Len() == 0, nil
}

// narrow is Find.narrow for the condition on a derived column: the posts of its list are looked up, in place of a walk over its space.
func (j *joined) narrow(b View) error {
	if j.drive < 0 || j.q.Mids != nil {
		return nil
	}
	of := j.derived[int(j.drive)-len(j.q.Counter.Columns)]
	tops := b.Space(of.Space.ID)[0].Tops
	if tops == nil {
		return nil
	}
	i := slices.IndexFunc(j.spans, func(s span) bool { return s.column == int(j.drive) })
	l, reaches := tops.Sum, func(sum uint64) bool { return sum >= j.spans[i].lo }
	if of.Decays() {
		l = tops.Of[schema.DecayedSum]
		reaches = func(sum uint64) bool { return of.Sum([]uint64{sum}, b.Time()) >= j.spans[i].lo }
	}
	if l == nil {
		return nil
	}
	mids, seen, ok := l.Reaching(reaches, mostListed)
	if !ok {
		return nil
	}
	b.NoteSeen(seen)
	j.drive, j.byList = -1, true
	q := j.listing(mids)
	q.NotMids = j.q.NotMids
	return j.walk.init(q)
}

// listing is the inner query for some posts.
func (j *joined) listing(mids []uint64) Query {
	q := j.q
	q.Where, q.Columns, q.Mids, q.NotMids, q.Limit, q.Offset = nil, j.wanted, mids, nil, 0, 0
	for _, c := range j.q.Where {
		if !q.Counter.IsDerived(int(c.Column)) {
			q.Where = append(q.Where, c)
		}
	}
	return q
}

// next is Find.Next.
func (j *joined) next() (mid uint64, more bool) {
	switch {
	case j.none:
		return 0, false
	case j.ready.Len() > 0:
		return j.ready.flat[0], true
	case j.list != nil:
		if mid, more = j.list.Next(); more {
			return mid, true
		}
	}
	return j.walk.Next()
}

// bind finds the derived columns in the schema in force.
func (j *joined) bind(b View) error {
	def := b.Schema().CounterByID(j.q.Counter.ID)
	if def == nil {
		return &DroppedError{Counter: j.q.Counter.Name}
	}
	for i := range j.q.Counter.Derived {
		was := &j.q.Counter.Derived[i]
		if !j.uses(int16(len(j.q.Counter.Columns) + i)) {
			continue
		}
		k := slices.IndexFunc(def.Derived, func(d schema.Derived) bool { return d.ID == was.ID })
		if k < 0 {
			return &DroppedError{j.q.Counter.Name, was.Name}
		}
		j.derived[i] = &def.Derived[k]
	}
	return nil
}

func (j *joined) uses(c int16) bool {
	return slices.Contains(j.q.Columns, c) || slices.ContainsFunc(j.spans, func(s span) bool { return s.column == int(c) })
}

// find takes a step of the inner searches, and tells whether there is nothing more.
func (j *joined) find(b View) (over bool, err error) {
	if j.list == nil {
		if over, err = j.walk.Step(b); err != nil {
			return false, err
		}
		rows := j.walk.Rows()
		if j.drive < 0 {
			return over, j.take(b, rows)
		}
		if j.listed = j.candidates(b, rows); len(j.listed) == 0 {
			return over, nil
		}
		j.list = &Find{}
		if err := j.list.init(j.listing(j.listed)); err != nil {
			return false, err
		}
	}
	done, err := j.list.Step(b)
	if err != nil {
		return false, err
	}
	if err := j.take(b, j.list.Rows()); err != nil {
		return false, err
	}
	if done {
		j.list = nil
	}
	_, more := j.walk.Next()
	return done && !more, nil
}

// candidates are the mids of items of a space that meet the condition on its column.
func (j *joined) candidates(b View, rows *Rows) (mids []uint64) {
	of := j.derived[int(j.drive)-len(j.q.Counter.Columns)]
	i := slices.IndexFunc(j.spans, func(s span) bool { return s.column == int(j.drive) })
	for k := range rows.Len() {
		if mid, row := rows.At(k); j.spans[i].holds(of.Sum(row, b.Time())) {
			mids = append(mids, mid)
		}
	}
	return mids
}

// take adds the posts of rows that meet the conditions on derived columns.
func (j *joined) take(b View, rows *Rows) error {
	own := len(j.q.Counter.Columns)
	for k := range rows.Len() {
		mid, values := rows.At(k)
		j.row = append(j.row[:0], make([]uint64, len(j.derived))...)
		j.sums = append(j.sums[:0], j.row...)
		for i, of := range j.derived {
			if of == nil {
				continue
			}
			v, sum, err := spaceValue(b, of, mid)
			if err != nil {
				return &RangeError{j.q.Counter, snapfile.MidRange{Lo: mid, Hi: mid + 1}, err}
			}
			j.row[i], j.sums[i] = v, v
			if j.exact && v > 0 && of.Decays() {
				j.sums[i] = sum
			}
		}
		if slices.ContainsFunc(j.spans, func(s span) bool { return !s.holds(j.row[s.column-own]) }) {
			continue
		}
		j.ready.flat = append(j.ready.flat, mid)
		for _, c := range j.q.Columns {
			if int(c) >= own {
				j.ready.flat = append(j.ready.flat, j.sums[int(c)-own])
			} else {
				j.ready.flat, values = append(j.ready.flat, values[0]), values[1:]
			}
		}
	}
	return nil
}

// spaceValue is a derived column of a post, and the first column of its item in the space: the stored sum, if it decays.
func spaceValue(b View, of *schema.Derived, mid uint64) (value, first uint64, err error) {
	ks := b.Space(of.Space.ID).Of(mid)
	blk := ks.Lock(mid)
	defer blk.Mu.Unlock()
	b.NoteSeen(blk.Logged)
	p, err := ks.Find(blk, mid)
	if err != nil || !p.Found() {
		return 0, 0, err
	}
	var row [schema.MaxColumns]uint64
	read, err := ks.AppendRow(row[:0], blk, mid, p)
	if err != nil {
		return 0, 0, err
	}
	return of.Sum(read, b.Time()), read[0], nil
}
