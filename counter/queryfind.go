package counter

import "math"

// Find finds the rows of a query. Not safe for concurrent use.
type Find struct {
	search search
	skip   int // rows to pass over
	left   int // rows to give, if Query.Limit says so
}

// NewFind prepares a query. The error is a *QueryError.
func NewFind(q Query) (*Find, error) {
	f := &Find{skip: q.Offset, left: q.Limit}
	return f, f.search.init(q, q.Columns)
}

// Step goes on for some hundred microseconds, a few thousand rows at most, and tells whether all was found, or as much
// as Limit says. The error is a *RangeError, a *DroppedError, or ErrNoMemory.
//
// An item that meets the query from the first step to the last is found exactly once, one that changes meanwhile at
// most once. REQUIRES b to be open; and b.Commit, or Defer, before rows are told.
func (f *Find) Step(b *Batch) (done bool, err error) {
	s := &f.search
	limit, exact := math.MaxInt, s.q.Limit > 0
	if exact {
		if limit = f.skip + f.left; f.left == 0 {
			s.rows.clear()
			return true, nil
		}
	}
	if err := s.step(b, limit, exact); err != nil {
		return false, err
	}
	n := min(f.skip, s.rows.Len())
	s.rows.drop(n)
	f.skip -= n
	if exact {
		f.left -= s.rows.Len()
	}
	if done = s.over || exact && f.left == 0; done {
		s.leave()
	}
	return done, nil
}

// Rows are those that the last step found, until the next.
func (f *Find) Rows() *Rows { return &f.search.rows }

// Next is the mid to go on at, see Query.GoOn; more is false where nothing is left.
func (f *Find) Next() (mid uint64, more bool) { return f.search.at, !f.search.over }

// Find calls fn for the rows of a query until it returns false. values are valid during the call. It acknowledges each
// step before. See Find.Step for what it promises, and for the errors.
func (s *Store) Find(q Query, fn func(mid uint64, values []uint64) bool) error {
	f, err := NewFind(q)
	if err != nil {
		return err
	}
	return s.steps(f.Step, func() bool {
		for i := range f.Rows().Len() {
			if !fn(f.Rows().At(i)) {
				return false
			}
		}
		return true
	})
}

// steps runs step, each in a batch of its own that is acknowledged, until it is done, or told returns false.
func (s *Store) steps(step func(*Batch) (bool, error), told func() bool) error {
	b := s.NewBatch()
	for {
		if err := b.Begin(); err != nil {
			return err
		}
		done, err := step(b)
		b.End()
		if err == nil {
			err = b.Commit()
		}
		if err != nil {
			return err
		}
		if !told() || done {
			return nil
		}
	}
}
