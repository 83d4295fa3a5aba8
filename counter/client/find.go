package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
)

// Op is how a condition compares: "=", "!=", "<", "<=", ">" or ">=".
type Op string

// Condition is one on a column, by name or suffix.
type Condition struct {
	Column string
	Op     Op
	Value  int64 // 0 or more
}

// Query says which posts are meant: all that meet all of it. The zero Query means all posts; one with a list of mids that is
// empty and not nil means none, and then nothing is sent. To look at very many takes
// the server seconds: give the go-redis client a ReadTimeout that suffices, as a query that ran out of it is not
// repeated.
type Query struct {
	From, To uint64   // a range of mids, both included; To 0: to the last
	Mids     []uint64 // these, at most 10,000, whatever From and To say; nil: there is no list; empty and not nil: no post
	Where    []Condition
	Columns  []string // the columns to read; none: all
	Desc     bool     // the newest first: the highest mid
	Offset   int      // how many rows of Find and Each are left out first
	// Limit is the most rows that Find gives, or posts that Update changes; 0: all of them. Each gives all of them, and
	// asks for Limit rows at a time; 0: 100.
	Limit int
}

// none reports whether the query means no post by its list.
func (q *Query) none() bool { return q.Mids != nil && len(q.Mids) == 0 }

// mostRows is how many rows one reply has at most, and mostOffset how many it leaves out.
const (
	mostRows   = 10_000
	mostOffset = 1_000_000
)

// Found is a post's mid and one of its values.
type Found struct {
	Mid   uint64
	Value int64
}

// Find gives the first posts that a query means, in the order of their mids: Limit of them, or all. More than 10,000 are
// asked for page by page, as Each does it. For very many use Each, which does not hold them all in memory.
func (c *Client) Find(ctx context.Context, q Query) ([]Row, error) {
	if q.none() {
		return nil, nil
	}
	if q.Limit <= 0 || q.Limit > mostRows || q.Offset > mostOffset {
		return c.findAll(ctx, q)
	}
	cs, list, err := c.columns.choose(ctx, q.Columns, false)
	if err != nil {
		return nil, err
	}
	args := q.find(cs, list)
	if q.Offset > 0 {
		args = append(args, "OFFSET", q.Offset)
	}
	reply, err := c.read(ctx, args...)
	if err != nil {
		return nil, err
	}
	return rowsOf(reply, cs.some(list))
}

// findAll is Find by pages.
func (c *Client) findAll(ctx context.Context, q Query) (rows []Row, err error) {
	pages := q
	pages.Limit = mostRows
	for row, err := range c.Each(ctx, pages) {
		if err != nil {
			return nil, err
		}
		if rows = append(rows, row); len(rows) == q.Limit {
			break
		}
	}
	return rows, nil
}

// Each gives all posts that a query means, page by page, and ends with the first error. A post that is changed
// meanwhile is given as it was when its page was read; none is given twice.
func (c *Client) Each(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if q.none() {
			return
		}
		q.Limit = min(q.Limit, mostRows)
		skip := q.Offset
		cs, list, err := c.columns.choose(ctx, q.Columns, false)
		if err != nil {
			yield(Row{}, err)
			return
		}
		args := append(q.find(cs, list), "CURSOR", "0")
		for {
			reply, err := c.read(ctx, append([]any(nil), args...)...)
			var rows []Row
			var page []any
			if err == nil {
				if page, err = slice(reply, 2); err == nil {
					rows, err = rowsOf(page[1], cs.some(list))
				}
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range rows {
				if skip > 0 {
					skip--
					continue
				}
				if !yield(row, nil) {
					return
				}
			}
			if args[len(args)-1] = page[0]; page[0] == "0" {
				return
			}
		}
	}
}

// Top gives the k posts with the highest values of a column among those that a query means, the highest first. Columns,
// Desc, Offset and Limit of the query say nothing here.
func (c *Client) Top(ctx context.Context, column string, k int, q Query) ([]Found, error) {
	if q.none() {
		return nil, nil
	}
	cs, i, err := c.columns.find(ctx, column)
	if err != nil {
		return nil, err
	}
	reply, err := c.read(ctx, q.conditions([]any{"COUNTER.TOP", cs.counter, cs.names[i], k})...)
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf(reply, []string{column})
	if err != nil {
		return nil, err
	}
	top := make([]Found, len(rows))
	for i, row := range rows {
		top[i] = Found{row.Mid, row.Values[0]}
	}
	return top, nil
}

// Count gives how many posts a query means.
func (c *Client) Count(ctx context.Context, q Query) (int64, error) {
	if q.none() {
		return 0, nil
	}
	cs, err := c.columns.current(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := c.read(ctx, q.conditions([]any{"COUNTER.COUNT", cs.counter})...)
	if err != nil {
		return 0, err
	}
	return number(reply)
}

// find is the command that asks for a query's rows. Columns are named, so that a row is not read by the wrong names.
func (q *Query) find(cs *columns, list []int) []any {
	args := q.conditions([]any{"COUNTER.FIND", cs.counter})
	if q.Desc {
		args = append(args, "DESC")
	}
	if q.Limit > 0 {
		args = append(args, "LIMIT", q.Limit)
	}
	for _, i := range list {
		args = append(args, "COLUMNS", cs.names[i]) // a word before each, as a column may be called as a clause is
	}
	return args
}

// conditions appends which posts are meant.
func (q *Query) conditions(args []any) []any {
	switch {
	case q.Mids != nil: // none() was asked before
		args = append(args, "MID", "IN")
		for _, mid := range q.Mids {
			args = append(args, mid)
		}
	case q.From > 0 && q.To > 0:
		args = append(args, "MID", ">=", q.From, "AND", "MID", "<=", q.To)
	case q.From > 0:
		args = append(args, "MID", ">=", q.From)
	case q.To > 0:
		args = append(args, "MID", "<=", q.To)
	}
	for i, where := range q.Where {
		word := "AND"
		if i == 0 {
			word = "WHERE"
		}
		args = append(args, word, where.Column, string(where.Op), where.Value)
	}
	return args
}

// read sends a query.
func (c *Client) read(ctx context.Context, args ...any) (any, error) {
	return ask(ctx, c, 0, func(ctx context.Context) (any, error) {
		reply, err := c.doNow(ctx, args)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			err = &slowError{err} // a server that is slow with one is not helped by a second
		}
		return reply, err
	}, args...)
}

// slowError is a query that took longer than the client waits.
type slowError struct{ err error }

func (e *slowError) Error() string { return "the query took too long: " + e.err.Error() }
func (e *slowError) Unwrap() error { return e.err }

// rowsOf makes rows of [mid, value ...].
func rowsOf(reply any, columns []string) ([]Row, error) {
	values := len(columns)
	list, err := slice(reply, -1)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(list))
	for i, item := range list {
		fields, err := slice(item, 1+values)
		if err != nil {
			return nil, err
		}
		mid, err := number(fields[0])
		if err != nil {
			return nil, err
		}
		rows[i] = Row{Mid: uint64(mid), Exists: true, Values: make([]int64, values), Columns: columns}
		for k, field := range fields[1:] {
			if rows[i].Values[k], err = number(field); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// slice is a reply that is an array, of so many elements unless that is negative.
func slice(reply any, n int) ([]any, error) {
	list, ok := reply.([]any)
	if !ok || n >= 0 && len(list) != n {
		return nil, fmt.Errorf("client: got %.100v in answer, want an array of %d", reply, n)
	}
	return list, nil
}
