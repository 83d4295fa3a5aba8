package query

import (
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Aggregate is a COUNTER.SUM, COUNT, MIN or MAX.
type Aggregate struct {
	counter.Query
	Kind   counter.AggregateKind
	Column int16 // means nothing for counter.Count
}

// ParseAggregate reads the arguments of the command of a kind behind its name. Errors are as ParseFind's.
func ParseAggregate(sch *schema.Schema, kind counter.AggregateKind, args [][]byte) (Aggregate, error) {
	a := Aggregate{Kind: kind}
	p, err := begin(sch, args, []clause{midsClause, whereClause})
	if err != nil {
		return Aggregate{}, err
	}
	if kind != counter.Count {
		if a.Column, err = p.column(); err != nil {
			return Aggregate{}, err
		}
	}
	if err := p.rest(); err != nil {
		return Aggregate{}, err
	}
	a.Query = p.q
	return a, nil
}
