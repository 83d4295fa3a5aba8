package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ErrOverflow is the answer of a Sum that an int64 cannot hold.
var ErrOverflow = errors.New("above 2^63-1")

// Sum adds up a column, by name or suffix, of the posts that a query means: 0 where it means none. A sum above 2^63-1 is
// an ErrOverflow whose text shows it. Columns, Desc, Offset and Limit of the query say nothing here.
func (c *Client) Sum(ctx context.Context, column string, q Query) (int64, error) {
	reply, err := c.aggregate(ctx, "COUNTER.SUM", column, q)
	if err != nil || reply == nil {
		return 0, err
	}
	return sumOf(reply)
}

// sumOf reads a sum: an integer, or above 2^63-1 a *big.Int, in RESP2 its text.
func sumOf(reply any) (int64, error) {
	if sum, ok := reply.(int64); ok {
		return sum, nil
	}
	return 0, fmt.Errorf("client: the sum is %v: %w", reply, ErrOverflow)
}

// Min gives the least value of a column, by name or suffix, among the posts that a query means. ok is false where it means
// none. Columns, Desc, Offset and Limit of the query say nothing here.
func (c *Client) Min(ctx context.Context, column string, q Query) (value int64, ok bool, err error) {
	return c.extreme(ctx, "COUNTER.MIN", column, q)
}

// Max is Min for the largest value.
func (c *Client) Max(ctx context.Context, column string, q Query) (value int64, ok bool, err error) {
	return c.extreme(ctx, "COUNTER.MAX", column, q)
}

func (c *Client) extreme(ctx context.Context, command, column string, q Query) (value int64, ok bool, err error) {
	reply, err := c.aggregate(ctx, command, column, q)
	if err != nil || reply == nil {
		return 0, false, err
	}
	value, err = number(reply)
	return value, err == nil, err
}

// aggregate asks for one number of a column; nil: there is none.
func (c *Client) aggregate(ctx context.Context, command, column string, q Query) (any, error) {
	if q.none() {
		return nil, nil
	}
	cs, i, err := c.columns.find(ctx, column)
	if err != nil {
		return nil, err
	}
	reply, err := c.read(ctx, q.conditions([]any{command, cs.counter, cs.names[i]})...)
	if err == redis.Nil {
		return nil, nil
	}
	return reply, err
}
