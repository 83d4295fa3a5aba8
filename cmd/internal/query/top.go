package query

import (
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Top is a COUNTER.TOP.
type Top struct {
	counter.Query
	Column int16
	K      int // 1..MaxRows
}

// ParseTop reads the arguments of COUNTER.TOP behind its name. Errors are as ParseFind's.
func ParseTop(sch *schema.Schema, args [][]byte) (t Top, err error) {
	p, err := begin(sch, args, []clause{midsClause, whereClause})
	if err != nil {
		return Top{}, err
	}
	if t.Column, err = p.column(); err != nil {
		return Top{}, err
	}
	if t.K, err = p.count("rows of TOP", MaxRows); err != nil {
		return Top{}, err
	}
	if err := p.rest(); err != nil {
		return Top{}, err
	}
	t.Query = p.q
	return t, nil
}
