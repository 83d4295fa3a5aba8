package client

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// errLate is the error of an attempt whose context ended first. The request may be on its way still.
var errLate = errors.New("the context ended before the answer came")

// ignoresContexts reports whether a go-redis client waits for a reply as long as its ReadTimeout says, whatever the
// context says. That is its default: ContextTimeoutEnabled has it look at deadlines.
func ignoresContexts(rdb redis.UniversalClient) bool {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return !rdb.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return !rdb.Options().ContextTimeoutEnabled
	}
	return true
}

// attend makes one attempt and returns when it is answered or when the context ends, whichever comes first. Where go-redis
// does not look at the context, an attempt that is late goes on by itself until ReadTimeout ends it: so once must not write
// to memory that its caller reads after an error. A context that cannot end costs nothing.
func attend[T any](ctx context.Context, c *Client, once func() (T, error)) (T, error) {
	if !c.deaf || ctx.Done() == nil {
		return once()
	}
	type outcome struct {
		reply T
		err   error
	}
	answered := make(chan outcome, 1)
	go func() {
		reply, err := once()
		answered <- outcome{reply, err}
	}()
	select {
	case o := <-answered:
		return o.reply, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-answered: // both came at the same time: a known result is worth more
		return o.reply, o.err
	default:
		var none T
		return none, errLate
	}
}

// process sends a command once. Behind errLate the command is not the caller's to read.
func (c *Client) process(ctx context.Context, rdb processor, cmd redis.Cmder) error {
	_, err := attend(ctx, c, func() (struct{}, error) { return struct{}{}, rdb.Process(ctx, cmd) })
	return err
}
