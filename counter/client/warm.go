package client

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// warmAtOnce is how many connections are opened at the same time: a server has to shake hands with each.
const warmAtOnce = 16

// Warm opens connections before there is traffic, so that the first requests do not wait for them, and reads the list
// of columns: MinIdleConns of each node, or all of the pool where the options say none. It is an error if one cannot be
// opened; opened connections stay.
func (c *Client) Warm(ctx context.Context) error {
	if _, err := c.columns.current(ctx); err != nil {
		return err
	}
	_, err := attend(ctx, c, func() (struct{}, error) { return struct{}{}, c.warm(ctx) })
	return err
}

// warm opens the connections of all nodes.
func (c *Client) warm(ctx context.Context) error {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return warm(ctx, rdb)
	case *redis.ClusterClient:
		return rdb.ForEachShard(ctx, warm)
	}
	return ctx.Err() // an AutoPipeliner has few connections, and opens them itself
}

// warm opens the connections of one node. Each is held until all are there: a pool gives the connection that came back
// last.
func warm(ctx context.Context, rdb *redis.Client) error {
	o := rdb.Options()
	n := o.PoolSize
	if o.MinIdleConns > 0 {
		n = min(n, o.MinIdleConns)
	}
	conns := make([]*redis.Conn, n)
	errs := make([]error, n)
	room := make(chan struct{}, warmAtOnce)
	var dialing sync.WaitGroup
	for i := range conns {
		conns[i] = rdb.Conn()
		room <- struct{}{}
		dialing.Go(func() {
			errs[i] = conns[i].Ping(ctx).Err()
			<-room
		})
	}
	dialing.Wait()
	for i, conn := range conns {
		errs[i] = errors.Join(errs[i], conn.Close())
	}
	for _, err := range errs { // one is enough to know: they are all of one node
		if err != nil {
			return err
		}
	}
	return nil
}
