package server

import (
	"context"
	"errors"
	"runtime"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/find"
	"github.com/counterd/counterd/cmd/counterd/internal/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// findConn is a client as the commands by condition see it.
type findConn struct{ *client }

var _ find.Conn = findConn{}

// onFind gives the commands by condition what they work on.
func onFind(c *client) find.Conn { return findConn{c} }

func (c findConn) Call() *items.Call { return &c.client.Call }

func (c findConn) Schema() *schema.Schema { return c.store.Schema() }

func (c findConn) Changed(def *schema.Counter, mids []uint64) { c.srv.watches.TouchItems(def, mids) }

// Steps takes turns with the queries of all connections, see Server.queries.
func (c findConn) Steps(changes bool, step func(b *counter.Batch) (done bool, err error)) (err error) {
	flags := command.ReadOnly
	if changes {
		flags = command.Write
	}
	err = find.ErrGone // unless it comes to a step
	c.Busy(func(ctx context.Context) {
		for done := false; !done; {
			if done, err = c.turn(ctx, flags, (*counter.Batch).Begin, step); err != nil {
				return
			}
			runtime.Gosched() // or it would keep a processor for 10 ms at a time
		}
	})
	if errors.Is(err, find.ErrGone) {
		c.Closing = true
	}
	c.answered(1)
	return err
}

// Alone is one turn with everybody else kept out.
func (c findConn) Alone(change func(b *counter.Batch) error) (err error) {
	err = find.ErrGone
	c.Busy(func(ctx context.Context) {
		_, err = c.turn(ctx, command.Write, (*counter.Batch).BeginExclusive, func(b *counter.Batch) (bool, error) { return true, change(b) })
	})
	if errors.Is(err, find.ErrGone) {
		c.Closing = true
	}
	return err
}

func (c findConn) Number(args [][]byte) (rest [][]byte, num idmp.Number, hash uint32, text string) {
	if rest, num, text = c.number(c.executed, args); text == "" {
		hash = c.executed.Hash().Add(rest[1:]...).Sum()
	}
	return rest, num, hash, text
}

// turn takes a step, in a batch that begin opens, when it may. What was let in once may be refused or held back by now:
// nothing must be changed behind a FAILOVER.
func (c findConn) turn(ctx context.Context, flags command.Flags, begin func(*counter.Batch) error,
	step func(b *counter.Batch) (done bool, err error)) (done bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, find.ErrGone
		}
		select {
		case c.srv.queries <- struct{}{}:
		case <-ctx.Done():
			return false, find.ErrGone
		}
		refusal, held := c.srv.node.Judge(flags, false)
		if refusal == "" && !held {
			break
		}
		<-c.srv.queries
		if refusal != "" {
			return false, items.Refusal(refusal)
		}
		c.srv.node.Unheld(ctx, flags, false)
	}
	defer func() { <-c.srv.queries }()
	if err := begin(c.Batch); err != nil {
		return false, err
	}
	done, err = step(c.Batch)
	c.Batch.End()
	if flags&command.Write != 0 { // a million changes must not wait in memory for the last one
		err = errors.Join(err, c.Batch.Commit())
	}
	return done, err
}

// queryTurns is how many steps of queries are taken at the same time.
func queryTurns() int { return max(1, runtime.GOMAXPROCS(0)/2) }
