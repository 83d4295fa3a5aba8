package client

import "context"

// Change is what an Update does to each post: to a column, by name or suffix, or to the whole post.
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
// Columns and Desc of the query say nothing here.
func (c *Client) Update(ctx context.Context, q Query, changes ...Change) (int64, error) {
	cs, err := c.schema(ctx, c.options.SchemaFor)
	if err != nil {
		return 0, err
	}
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
	reply, err := c.numbered(ctx, args)
	if err != nil {
		return 0, err
	}
	return number(reply)
}
