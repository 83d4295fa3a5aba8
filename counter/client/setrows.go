package client

import (
	"cmp"
	"context"
	"fmt"
)

// rowsAtOnce is how many posts are set by one command: it takes the server 0.4 ms.
const rowsAtOnce = 1000

// SetRows gives columns of many posts their values, all columns but derived ones where none is named: Values of a row are in that order,
// and Exists says nothing. It is for imports of counts from elsewhere. It returns how many posts were set: all, or those
// before the error, beside which the posts of the command that failed may be set or not (ClassOf tells).
//
// 1,000 posts are one command (COUNTER.MSET), one change and one number: a repeat changes nothing that others have changed
// since. In a cluster each post is a command (HSET) of its own, those of many nodes side by side, and the error is the
// first one of any.
func (c *Client) SetRows(ctx context.Context, rows []Row, columns ...string) (set int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	if len(columns) > 0 {
		if err := checkRows(rows, len(columns)); err != nil {
			return 0, err
		}
	}
	cs, list, err := c.columns.choose(ctx, columns, false)
	if err != nil {
		return 0, err
	}
	if len(columns) == 0 {
		list = list[:cs.own]
	}
	if err := checkRows(rows, len(list)); err != nil {
		return 0, err
	}
	if c.cluster {
		return c.setPosts(ctx, cs, list, rows)
	}
	for ; len(rows) > 0; rows = rows[min(rowsAtOnce, len(rows)):] {
		part := rows[:min(rowsAtOnce, len(rows))]
		args := make([]any, 0, 6+len(part)*(1+len(list))+len(list))
		args = append(args, "COUNTER.MSET", cs.counter)
		for i := range part {
			args = append(args, part[i].Mid)
			for _, v := range part[i].Values {
				args = append(args, v)
			}
		}
		args = append(args, "COLUMNS")
		for _, column := range list {
			args = append(args, cs.names[column])
		}
		if _, err := c.numbered(ctx, len(part), args); err != nil {
			return set, err
		}
		set += len(part)
	}
	return set, nil
}

// checkRows finds a row with more or fewer values than columns, or with a mid that is none.
func checkRows(rows []Row, columns int) error {
	for i := range rows {
		if got := len(rows[i].Values); got != columns {
			return &RowError{Mid: rows[i].Mid, Got: got, Want: columns}
		}
		if err := checkMid(rows[i].Mid); err != nil {
			return err
		}
	}
	return nil
}

// RowError is a row of SetRows that has not one value for each column. Nothing was sent.
type RowError struct {
	Mid       uint64
	Got, Want int // values
}

func (e *RowError) Error() string {
	return fmt.Sprintf("client: got %d values for post %d, want %d", e.Got, e.Mid, e.Want)
}

// setPosts is SetRows by a command for each post.
func (c *Client) setPosts(ctx context.Context, cs *columns, list []int, rows []Row) (set int, first error) {
	for ; len(rows) > 0 && first == nil; rows = rows[min(rowsAtOnce, len(rows)):] {
		part := rows[:min(rowsAtOnce, len(rows))]
		all := make([][]any, len(part))
		for i := range part {
			all[i] = append(make([]any, 0, 5+2*len(list)), "HSET", cs.post(part[i].Mid))
			for k, column := range list {
				all[i] = append(all[i], cs.names[column], part[i].Values[k])
			}
		}
		c.numberedMany(ctx, all, func(_ int, _ any, err error) {
			if first = cmp.Or(first, err); err == nil {
				set++
			}
		})
	}
	return set, first
}
