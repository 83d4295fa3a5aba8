package query

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// AggregateKind is the function that an Aggregate computes over the items of a query.
type AggregateKind uint8

const (
	Count AggregateKind = iota // how many there are
	Sum                        // of a column
	Min
	Max
)

// Aggregate counts the items of a query, or takes sum, least or largest of a column. Not safe for concurrent use.
type Aggregate struct {
	Search Search
	kind   AggregateKind
	span   int // of the column, for Min
	hi, lo uint64
	some   bool
	Top    *Top    // Max is the first of all
	joined *joined // nil: the query has to do with no derived column
}

// NewAggregate prepares one; column means nothing for Count, nor do Query.Limit, Offset, Desc and Columns. The error is
// a *QueryError.
func NewAggregate(q Query, kind AggregateKind, column int16) (*Aggregate, error) {
	a := &Aggregate{kind: kind}
	q.Limit, q.Offset, q.Desc, q.Columns = 0, 0, false, []int16{column}
	switch kind {
	case Max:
		var err error
		a.Top, err = NewTop(q, column, 1)
		return a, err
	case Count:
		q.Columns = []int16{}
	case Sum, Min:
	default:
		return nil, &QueryError{fmt.Sprintf("aggregate %d", kind)}
	}
	if q.usesDerived() {
		if kind == Sum && q.Counter.IsDerived(int(column)) { // the others add nothing, and need not be looked at
			q.Where = append(slices.Clone(q.Where), Condition{column, Greater, 0})
		}
		var err error
		a.joined, err = newJoined(q)
		return a, err
	}
	if err := a.Search.Init(q, q.Columns); err != nil {
		return nil, err
	}
	if kind == Min {
		a.span = a.Search.spanFor(int(column))
	}
	a.Search.sink, a.Search.bare = a.take, true
	return a, nil
}

// take adds rows to the result.
func (a *Aggregate) take(rows *Rows) {
	some := a.some
	a.some = some || len(rows.flat) > 0
	switch a.kind {
	case Count:
		a.lo += uint64(len(rows.flat))
	case Sum:
		for i := 1; i < len(rows.flat); i += 2 {
			var carry uint64
			a.lo, carry = bits.Add64(a.lo, rows.flat[i], 0)
			a.hi += carry
		}
	case Min:
		if len(rows.flat) == 0 {
			return
		}
		least := uint64(math.MaxUint64)
		for i := 1; i < len(rows.flat); i += 2 {
			least = min(least, rows.flat[i])
		}
		if some {
			least = min(least, a.lo)
		}
		// Only smaller values matter from now on.
		a.lo = least
		if sp := &a.Search.spans[a.span]; least > sp.lo {
			a.Search.narrow(a.span, sp.lo, least-1)
		} else {
			a.Search.Over, a.Search.dry = true, true
		}
	}
}

// takeJoined adds rows of a query that has to do with derived columns to the result.
func (a *Aggregate) takeJoined(rows *Rows) {
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
		}
		a.some = true
	}
}

// Step is Find.Step; the result is known when it is done. An item that is deleted and made again meanwhile may count
// twice.
func (a *Aggregate) Step(b View) (done bool, err error) {
	if a.Top != nil {
		if done, err = a.Top.Step(b); done {
			if a.some = a.Top.rows.Len() > 0; a.some {
				a.lo = a.Top.rows.flat[1]
			}
		}
		return done, err
	}
	if a.joined != nil {
		if done, err = a.joined.step(b); err == nil {
			a.takeJoined(&a.joined.rows)
		}
		return done, err
	}
	err = a.Search.Step(b, math.MaxInt, false)
	return err == nil && a.Search.Over, err
}

// Result is hi * 2^64 + lo, and whether there was an item at all; of the Sum of a derived column, an item above 0. REQUIRES that Step is done.
func (a *Aggregate) Result() (hi, lo uint64, some bool) { return a.hi, a.lo, a.some }
