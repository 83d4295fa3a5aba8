package query

import "math"

// Find finds the rows of a query. Not safe for concurrent use.
type Find struct {
	Search Search
	skip   int     // rows to pass over
	left   int     // rows to give, if Query.Limit says so
	joined *joined // nil: the query has to do with no derived column
	lists  bool    // the next step is the first, and asks top lists
	Listed bool    // a list had the posts, for tests
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
		done, err = f.joined.step(b)
		f.Listed = f.joined.byList || f.joined.walk.Listed
		return done, err
	}
	if f.lists {
		f.lists = false
		if err := f.narrow(b); err != nil {
			return false, err
		}
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
		leaveMemory(s)
	}
	return done, nil
}

// AskLists lets the first step ask the top lists of columns for the posts: see mostListed.
func (f *Find) AskLists() {
	if f.lists = true; f.joined != nil {
		f.joined.lists, f.joined.walk.lists = true, f.joined.drive < 0
	}
}

// mostListed is how many posts of a top list are looked up, where a condition lets only posts pass that the list has: 0.2 ms of a processor, in place of a
// look at all posts. A list has 10,000 posts and more, if it is a long one.
const mostListed = 2048

// narrow makes the search one of the posts in a top list, where a list has all posts that meet a condition.
func (f *Find) narrow(b View) error {
	s := &f.Search
	def := b.Schema().CounterByID(s.Query.Counter.ID)
	if s.Over || s.Query.Mids != nil || def == nil {
		return nil
	}
	tops := b.Space(def.ID)[0].Tops
	for i := range s.spans {
		sp := &s.spans[i]
		c, err := Place(&s.Query, def, int16(sp.column))
		if err != nil {
			return err
		}
		if tops == nil || tops.Of[c] == nil || sp.lo == 0 {
			continue
		}
		mids, seen, ok := tops.Of[c].Reaching(func(value uint64) bool { return value >= sp.lo }, mostListed)
		if !ok {
			continue
		}
		b.NoteSeen(seen)
		q := s.Query
		q.Mids, f.Listed = mids, true
		return f.init(q)
	}
	return nil
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
