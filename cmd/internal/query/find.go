package query

import (
	"fmt"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Find is a COUNTER.FIND.
type Find struct {
	counter.Query      // narrowed to the rest, if a cursor was given; Limit is 1..MaxRows
	Paged         bool // CURSOR was given: the answer has the next one beside the rows

	check uint32
}

// Next is the cursor of a call that goes on at mid.
func (f *Find) Next(mid uint64) string { return cursorText(f.check, mid) }

// ParseFind reads the arguments of COUNTER.FIND behind its name. Errors are a *SyntaxError, *LimitError, *UnknownError
// or *CursorError.
func ParseFind(sch *schema.Schema, args [][]byte) (Find, error) {
	var cursor []byte
	p, err := begin(sch, args, []clause{
		midsClause, whereClause,
		{word: "LIMIT", read: func(p *parser) (err error) { p.q.Limit, err = p.count("LIMIT", MaxRows); return err }},
		{word: "OFFSET", read: (*parser).offset},
		{word: "DESC", read: func(p *parser) error { p.q.Desc = true; return nil }},
		{word: "COLUMNS", again: true, read: (*parser).columns},
		{word: "CURSOR", read: func(p *parser) (err error) { cursor, err = p.next("a cursor"); return err }},
	})
	if err != nil {
		return Find{}, err
	}
	if err := p.rest(); err != nil {
		return Find{}, err
	}
	f := Find{Query: p.q, Paged: cursor != nil}
	if f.Limit == 0 {
		f.Limit = MaxRows
		if f.Paged {
			f.Limit = DefaultPage
		}
	}
	if !f.Paged {
		return f, nil
	}
	if f.Offset > 0 {
		return Find{}, &SyntaxError{Got: "CURSOR", Want: "either OFFSET or CURSOR: a cursor says where to go on"}
	}
	f.check = checkOf(&f.Query)
	if string(cursor) == "0" {
		return f, nil
	}
	mid, ok := parseCursor(cursor, f.check)
	if !ok || mid < f.From || mid > f.To {
		return Find{}, &CursorError{shown(cursor)}
	}
	f.GoOn(mid)
	return f, nil
}

// offset reads OFFSET's number, which may be 0.
func (p *parser) offset() error {
	n, err := p.number(0, schema.MaxValue)
	if err != nil {
		return err
	}
	if n > MaxOffset {
		return &LimitError{"OFFSET", fmt.Sprint(n), MaxOffset}
	}
	p.q.Offset = int(n)
	return nil
}

// columns reads the list of COLUMNS, which begins with a column whatever it is called, and ends at a keyword.
func (p *parser) columns() error {
	for first := true; first || len(p.args) > 0 && p.clause(p.args[0]) < 0; first = false {
		col, err := p.column()
		if err != nil {
			return err
		}
		if len(p.q.Columns) == schema.MaxColumns {
			return &LimitError{"columns behind COLUMNS", fmt.Sprintf("more than %d", schema.MaxColumns), schema.MaxColumns}
		}
		p.q.Columns = append(p.q.Columns, col)
	}
	return nil
}
