package client

import "context"

// Change is a change that an Update makes to each post: to a column, by name or suffix, or to the whole post.
type Change struct {
	Do     Doing
	Column string // of all but Delete
	N      int64  // of SetTo, Increase and Decrease; 0 or more
}

// Doing is a kind of Change.
type Doing string

// Kinds of changes.
const (
	SetTo    Doing = "SET"
	Increase Doing = "INCR"
	Decrease Doing = "DECR"
	Reset    Doing = "RESET" // the column to its default
	Delete   Doing = "DEL"   // the post
)

// Update makes changes of all posts that a query means, as one change that counts once however often it has to be sent,
// and gives how many posts were changed. The server takes 10,000 posts at once: where there are more, and Limit does
// not say which, it refuses. A post that a change would take out of a column's range stays as it is and is not counted.
// Columns, Desc and Offset of the query say nothing here. A query whose list of mids is empty and not nil changes nothing.
func (c *Client) Update(ctx context.Context, q Query, changes ...Change) (int64, error) {
	if q.none() {
		return 0, nil
	}
	cs, err := c.columns.current(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := c.numbered(ctx, 0, q.update(cs, changes))
	if err != nil {
		return 0, err
	}
	return number(reply)
}

// Returning is which rows an UpdateRows gives.
type Returning string

// The values that an UpdateRows returns for each post.
const (
	ReturnOld Returning = "OLD" // before the change
	ReturnNew Returning = "NEW" // after it; not of Delete
)

// UpdateRows is Update that gives the posts that it changed, with all their columns. A repeat is answered the same, as
// long as the answer has less than 64 KiB: some 3,000 posts of three columns; beyond that it is refused as IDMPEXPIRED,
// in doubt, and a Limit helps.
func (c *Client) UpdateRows(ctx context.Context, returning Returning, q Query, changes ...Change) ([]Row, error) {
	if q.none() {
		return nil, nil
	}
	cs, err := c.columns.read(ctx, 0) // rows have the columns of this moment
	if err != nil {
		return nil, err
	}
	reply, err := c.numbered(ctx, 0, append(q.update(cs, changes), "RETURNING", string(returning)))
	if err != nil {
		return nil, err
	}
	return rowsOf(reply, append([]string(nil), cs.names[:cs.own]...))
}

// update is the command that changes the posts of a query.
func (q *Query) update(cs *columns, changes []Change) []any {
	args := q.conditions([]any{"COUNTER.UPDATE", cs.counter})
	for _, ch := range changes {
		args = append(args, string(ch.Do))
		if ch.Do != Delete {
			args = append(args, ch.Column)
		}
		if ch.Do != Delete && ch.Do != Reset {
			args = append(args, ch.N)
		}
	}
	if q.Limit > 0 {
		args = append(args, "LIMIT", q.Limit)
	}
	return args
}
