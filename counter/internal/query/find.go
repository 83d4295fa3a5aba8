package query

import "math"

// Find finds the rows of a query. Not safe for concurrent use.
type Find struct {
	Search Search
	skip   int     // rows to pass over
	left   int     // rows to give, if Query.Limit says so
	joined *joined // nil: the query has to do with no derived column
}

// NewFind prepares a query. The error is a *QueryError.
func NewFind(q Query) (*Find, error) {
	if q.usesDerived() {
		j, err := newJoined(q)
		return &Find{joined: j}, err
	}
	f := &Find{}
	return f, f.init(q)
}

// init is NewFind in its place, of a query without derived columns.
func (f *Find) init(q Query) error {
	f.skip, f.left = q.Offset, q.Limit
	return f.Search.Init(q, q.Columns)
}

// Step goes on for some hundred microseconds, a few thousand rows at most, and tells whether all was found, or as much
// as Limit says. The error is a *RangeError, a *DroppedError, or ErrNoMemory.
//
// An item that meets the query from the first step to the last is found exactly once, an item that changes meanwhile at most
// once. REQUIRES b to be open; and b.Commit, or Defer, before rows are told.
func (f *Find) Step(b View) (done bool, err error) {
	if f.joined != nil {
		return f.joined.step(b)
	}
	s := &f.Search
	limit, exact := math.MaxInt, s.Query.Limit > 0
	if exact {
		if limit = f.skip + f.left; f.left == 0 {
			Clear(&s.Rows)
			return true, nil
		}
	}
	if err := s.Step(b, limit, exact); err != nil {
		return false, err
	}
	n := min(f.skip, s.Rows.Len())
	s.Rows.drop(n)
	f.skip -= n
	if exact {
		f.left -= s.Rows.Len()
	}
	if done = s.Over || exact && f.left == 0; done {
		s.Leave()
	}
	return done, nil
}

// Rows are those that the last step found, until the next.
func (f *Find) Rows() *Rows {
	if f.joined != nil {
		return &f.joined.rows
	}
	return &f.Search.Rows
}

// Next is the mid to go on at, see Query.GoOn; more is false where nothing is left.
func (f *Find) Next() (mid uint64, more bool) {
	if f.joined != nil {
		return f.joined.next()
	}
	return f.Search.at, !f.Search.Over
}
