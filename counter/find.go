package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/query"
)

// Queries and their results: see package query.
type (
	// Query says which posts are wanted, and which columns of them.
	Query = query.Query
	// Condition compares a column with a value.
	Condition = query.Condition
	// Compare is how a Condition compares.
	Compare = query.Compare
	// Rows are posts that a query found: a mid and columns each.
	Rows = query.Rows
	// AggregateKind is the function that NewAggregate computes.
	AggregateKind = query.AggregateKind

	// QueryError describes an invalid query. Nothing was read.
	QueryError = query.QueryError
	// DroppedError says that the counter of a query, or a column, was dropped while the query ran.
	DroppedError = query.DroppedError
	// RangeError says that a range of mids cannot be read, as a cold file is damaged. It matches ErrCold.
	RangeError = query.RangeError
)

// Comparisons of a Condition.
const (
	Equal        = query.Equal
	NotEqual     = query.NotEqual
	Less         = query.Less
	LessEqual    = query.LessEqual
	Greater      = query.Greater
	GreaterEqual = query.GreaterEqual
)

// Kinds of aggregates.
const (
	Count = query.Count
	Sum   = query.Sum
	Min   = query.Min
	Max   = query.Max
)

// MaxQueryList is the largest number of mids in a list of a query.
const MaxQueryList = query.MaxQueryList

// Find finds the rows of a query. Not safe for concurrent use.
type Find struct{ q *query.Find }

// NewFind prepares a query. The error is a *QueryError.
func NewFind(q Query) (*Find, error) {
	f, err := query.NewFind(q)
	if err == nil {
		f.AskLists()
	}
	return &Find{f}, err
}

// Step goes on for some hundred microseconds, a few thousand rows at most, and tells whether all was found, or as much
// as Limit says. The error is a *RangeError, a *DroppedError, or ErrNoMemory.
//
// An item that meets the query from the first step to the last is found exactly once. An item that changes meanwhile is found
// at most once. REQUIRES b to be open; and b.Commit, or Defer, before rows are told.
func (f *Find) Step(b *Batch) (done bool, err error) { return f.q.Step((*core.View)(b)) }

// GiveWay has way be called during a step now and then, each 50 us or so, while no lock is held: others may have their turn then. The batch of
// the step is open.
func (f *Find) GiveWay(way func()) { f.q.Search.GiveWay = way }

// Rows are those that the last step found, until the next.
func (f *Find) Rows() *Rows { return f.q.Rows() }

// Next is the mid to go on at, see Query.GoOn; more is false where nothing is left.
func (f *Find) Next() (mid uint64, more bool) { return f.q.Next() }

// Top finds the items with the largest values of a column. Not safe for concurrent use.
type Top struct{ q *query.Top }

// NewTop prepares one of the k items with the largest values of a column: see query.NewTop. The error is a *QueryError.
func NewTop(q Query, column int16, k int) (*Top, error) {
	t, err := query.NewTop(q, column, k)
	return &Top{t}, err
}

// Step is Find.Step; the rows are known when it is done.
func (t *Top) Step(b *Batch) (done bool, err error) { return t.q.Step((*core.View)(b)) }

// GiveWay is that of Find. It is not called for derived columns.
func (t *Top) GiveWay(way func()) { t.q.Search.GiveWay = way }

// Rows are mid and value of the items found, the best first. REQUIRES that Step is done.
func (t *Top) Rows() *Rows { return t.q.Rows() }

// Aggregate counts the items of a query, or takes sum, least or largest of a column. Not safe for concurrent use.
type Aggregate struct{ q *query.Aggregate }

// NewAggregate prepares one; column means nothing for Count, nor do Query.Limit, Offset, Desc and Columns. The error is
// a *QueryError.
func NewAggregate(q Query, kind AggregateKind, column int16) (*Aggregate, error) {
	a, err := query.NewAggregate(q, kind, column)
	return &Aggregate{a}, err
}

// Step is Find.Step; the result is known when it is done. An item that is deleted and made again meanwhile may count
// twice.
func (a *Aggregate) Step(b *Batch) (done bool, err error) { return a.q.Step((*core.View)(b)) }

// GiveWay is that of Find. It is not called for derived columns.
func (a *Aggregate) GiveWay(way func()) {
	a.q.Search.GiveWay = way
	if a.q.Top != nil {
		a.q.Top.Search.GiveWay = way
	}
}

// Result is hi * 2^64 + lo, and whether there was an item at all. REQUIRES that Step is done.
func (a *Aggregate) Result() (hi, lo uint64, some bool) { return a.q.Result() }

// Find calls fn for the rows of a query until it returns false. values are valid during the call. It acknowledges each step
// before. See Find.Step for its guarantees and its errors.
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

// Top is NewTop and all its steps.
func (s *Store) Top(q Query, column int16, k int) (*Rows, error) {
	t, err := NewTop(q, column, k)
	if err != nil {
		return nil, err
	}
	return t.Rows(), s.steps(t.Step, func() bool { return true })
}

// Aggregate is NewAggregate and all its steps.
func (s *Store) Aggregate(q Query, kind AggregateKind, column int16) (hi, lo uint64, some bool, err error) {
	a, err := NewAggregate(q, kind, column)
	if err == nil {
		err = s.steps(a.Step, func() bool { return true })
	}
	if err != nil {
		return 0, 0, false, err
	}
	hi, lo, some = a.Result()
	return hi, lo, some, nil
}
