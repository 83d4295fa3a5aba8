package server

import (
	"context"
	"log/slog"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/dataset"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// datasetConn is a call as package dataset sees it.
type datasetConn struct {
	*call
	internal bool // it does not look for keys itself
}

var _ dataset.Conn = datasetConn{}

// onDataset gives the commands on all data what they work on.
func onDataset(c *client) dataset.Conn { return datasetConn{&c.call, c.internal} }

func (c datasetConn) Call() *items.Call     { return &c.call.Call }
func (c datasetConn) Store() *counter.Store { return c.srv.store() }
func (c datasetConn) Executing() bool       { return c.executing }
func (c datasetConn) TouchAll()             { c.srv.touchedAll() }
func (c datasetConn) Log() *slog.Logger     { return c.srv.log.With("client", c.session.ID()) }

func (c datasetConn) WithStore(exclusive bool, f func(b *counter.Batch) error) error {
	return c.withStore(exclusive, f)
}

// AppendKey has the mid in braces on a node of a cluster, so that clients look for it where it is.
func (c datasetConn) AppendKey(dst []byte, sch *schema.Schema, def *schema.Counter, col int, mid uint64) []byte {
	if c.srv.cluster != nil && !c.internal {
		return sch.AppendTagged(dst, def, col, mid)
	}
	return sch.AppendKey(dst, def, col, mid)
}

// AlterCluster waits for etcd, and for the primaries of all shards. On a replica too: the schema is the cluster's.
func (c datasetConn) AlterCluster(statement string) (done bool, err error) {
	if c.srv.cluster == nil {
		return false, nil
	}
	if c.srv.cluster.Hooks().Alter == nil {
		return true, items.Refusal(route.ErrDown)
	}
	err = context.Canceled
	c.session.Block(context.Background(), func(ctx context.Context) { err = c.srv.cluster.Hooks().Alter(ctx, statement) })
	if err == nil {
		c.Log().Info("schema of the cluster changed", "statement", statement)
	}
	return true, err
}

func (c datasetConn) GiveWay() { c.session.GiveWay() }

// Busy has as many at work at once as there are turns for queries: each may hold 100,000 keys.
func (c datasetConn) Busy(work func(ctx context.Context)) {
	done := false
	c.session.Busy(func(ctx context.Context) {
		select {
		case c.srv.walks <- struct{}{}:
			defer func() { <-c.srv.walks }()
			work(ctx)
			done = ctx.Err() == nil
		case <-ctx.Done():
		}
	})
	if !done {
		c.session.Closing = true
	}
}
