package client

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// The number of a change is in the last arguments of its command.
const idmp = "IDMP"

// Incr adds 1 to a column of a post, by name or suffix, and gives the value after it.
func (c *Client) Incr(ctx context.Context, mid uint64, column string) (int64, error) {
	return c.Add(ctx, mid, column, 1)
}

// Add adds n, which may be negative, to a column of a post, and gives the value after it. It is counted once however
// often it has to be sent. An addition that would leave the column's range is refused.
//
// The error is an *Error, or says that nothing was sent: then it is a *ColumnError or the context's.
func (c *Client) Add(ctx context.Context, mid uint64, column string, n int64) (int64, error) {
	cs, i, err := c.columns.find(ctx, column)
	if err != nil {
		return 0, err
	}
	l, seq, err := c.lanes.take(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer c.lanes.known(l, seq, 1)
	args := []any{"INCRBY", cs.key(mid, i), n, idmp, l.producer, seq}
	c.budget.request()
	if ctx.Err() != nil {
		return 0, unsent(ctx)
	}
	ctx, span := c.tracer.begin(ctx, c, 1, args)
	cmd := redis.NewIntCmd(ctx, args...)
	if err = c.process(ctx, c.rdb, once{cmd}); err != nil {
		err = c.again(ctx, err, func() error {
			cmd = redis.NewIntCmd(ctx, args...)
			return c.process(ctx, c.rdb, once{cmd})
		}, l.describe(seq, args))
	}
	span.end(err)
	if err != nil {
		return 0, err
	}
	return cmd.Val(), nil
}

// Set sets a column of a post. A repeated Set does not undo later changes.
func (c *Client) Set(ctx context.Context, mid uint64, column string, value int64) error {
	_, err := c.change(ctx, mid, column, "SET", nil, value)
	return err
}

// Take gives the value of a column of a post and sets it to its default, as one change: no other caller gets the same
// value. ok is false, and nothing is changed, where there is no such post.
func (c *Client) Take(ctx context.Context, mid uint64, column string) (value int64, ok bool, err error) {
	reply, err := c.change(ctx, mid, column, "GETDEL", nil)
	if err == redis.Nil {
		return 0, false, nil
	} else if err != nil {
		return 0, false, err
	}
	value, err = number(reply)
	return value, true, err
}

// change makes a change of one column: a command whose key, the first argument, is filled in.
func (c *Client) change(ctx context.Context, mid uint64, column string, command ...any) (any, error) {
	cs, i, err := c.columns.find(ctx, column)
	if err != nil {
		return nil, err
	}
	command[1] = cs.key(mid, i)
	return c.numbered(ctx, 1, command)
}

// numbered makes a change, with a number behind its arguments, and gives the reply.
// posts is how many posts it changes, 0 where only the server knows.
func (c *Client) numbered(ctx context.Context, posts int, args []any) (any, error) {
	l, seq, err := c.lanes.take(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer c.lanes.known(l, seq, 1)
	args = append(args, idmp, l.producer, seq)
	ctx, span := c.tracer.begin(ctx, c, posts, args)
	var reply any
	err = c.send(ctx, func() (err error) {
		reply, err = c.do(ctx, args)
		return err
	}, l.describe(seq, args))
	span.end(err)
	return reply, err
}

// do sends a command once.
func (c *Client) do(ctx context.Context, args []any) (any, error) {
	return attend(ctx, c, func() (any, error) { return c.doNow(ctx, args) })
}

// doNow is do that leaves contexts to go-redis.
func (c *Client) doNow(ctx context.Context, args []any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	err := c.rdb.Process(ctx, once{cmd})
	return cmd.Val(), err
}

// describe names a change of this lane for an error.
func (l *lane) describe(seq uint64, args []any) func(*Error) {
	return func(e *Error) {
		e.Request, e.Producer, e.Seq = text(args), l.producer.(string), seq
	}
}
