package counter

import (
	"fmt"
	"math/bits"
)

// AggregateKind is what an Aggregate makes of the items of a query.
type AggregateKind uint8

const (
	Count AggregateKind = iota // how many there are
	Sum                        // of a column
	Min
	Max
)

// Aggregate counts the items of a query, or takes sum, least or largest of a column. Not safe for concurrent use.
type Aggregate struct {
	search search
	kind   AggregateKind
	hi, lo uint64
	some   bool
}

// NewAggregate prepares one; column means nothing for Count, nor do Query.Limit, Offset, Desc and Columns. The error is
// a *QueryError.
func NewAggregate(q Query, kind AggregateKind, column int16) (*Aggregate, error) {
	a := &Aggregate{kind: kind}
	q.Limit, q.Offset, q.Desc, q.Columns = 0, 0, false, []int16{column}
	switch {
	case kind > Max:
		return nil, &QueryError{fmt.Sprintf("aggregate %d", kind)}
	case kind == Count:
		q.Columns = []int16{}
	}
	return a, a.search.init(q, q.Columns)
}

// Step is Find.Step; the result is known when it is done.
func (a *Aggregate) Step(b *Batch) (done bool, err error) {
	if err := a.search.step(b, stepRows); err != nil {
		return false, err
	}
	rows := &a.search.rows
	for i := range rows.Len() {
		_, values := rows.At(i)
		switch a.kind {
		case Count:
			a.lo++
		case Sum:
			var carry uint64
			a.lo, carry = bits.Add64(a.lo, values[0], 0)
			a.hi += carry
		case Min:
			if !a.some || values[0] < a.lo {
				a.lo = values[0]
			}
		case Max:
			a.lo = max(a.lo, values[0])
		}
		a.some = true
	}
	return a.search.over, nil
}

// Result is hi * 2^64 + lo, and whether there was an item at all. REQUIRES that Step is done.
func (a *Aggregate) Result() (hi, lo uint64, some bool) { return a.hi, a.lo, a.some }

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
