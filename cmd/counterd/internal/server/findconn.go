package server

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/find"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// findConn is a client as the commands by condition see it.
type findConn struct{ c *client }

var _ find.Conn = findConn{}

// onFind gives the commands by condition what they work on.
func onFind(h front.Handler) find.Conn { return findConn{h.(*client)} }

func (c findConn) Call() *items.Call { return &c.c.call.items }

func (c findConn) Schema() *schema.Schema { return c.c.call.names() }

func (c findConn) Changed(def *schema.Counter, mids []uint64) { c.c.call.touchedItems(def, mids) }

func (c findConn) GiveWay() { c.c.srv.front.GiveWay() }

func (c findConn) Clustered() bool { return c.c.srv.cluster != nil }

// Steps takes turns with the queries of all connections, see shared.queries.
func (c findConn) Steps(changes bool, step func(b *counter.Batch) (done bool, err error)) (err error) {
	flags := command.ReadOnly
	if changes {
		flags = command.Write
	}
	err = find.ErrGone // unless it comes to a step
	c.c.session.Busy(func(ctx context.Context) {
		for done := false; !done; {
			if done, err = c.awaitTurn(ctx, flags, (*counter.Batch).Begin, step); err != nil {
				return
			}
			c.c.srv.front.GiveWay() // or it would keep a processor for 10 ms at a time
		}
	})
	if errors.Is(err, find.ErrGone) {
		c.c.session.Closing = true
	}
	c.c.call.deferCommit()
	return err
}

// Alone is one turn with everybody else kept out.
func (c findConn) Alone(change func(b *counter.Batch) error) (err error) {
	err = find.ErrGone
	c.c.session.Busy(func(ctx context.Context) {
		_, err = c.awaitTurn(ctx, command.Write, (*counter.Batch).BeginExclusive, func(b *counter.Batch) (bool, error) { return true, change(b) })
	})
	if errors.Is(err, find.ErrGone) {
		c.c.session.Closing = true
	}
	return err
}

func (c findConn) Number(args [][]byte) (rest [][]byte, num idmp.Number, hash idmp.Hash, text string) {
	if rest, text = c.c.call.number(&num, c.c.executed, args); text == "" {
		hash = c.c.executed.Hash().Add(rest[1:]...)
	}
	return rest, num, hash, text
}

// awaitTurn takes a step, in a batch that begin opens, when it may. A command that was admitted once may be refused or held
// back by now: nothing must be changed after a FAILOVER.
func (c findConn) awaitTurn(ctx context.Context, flags command.Flags, begin func(*counter.Batch) error,
	step func(b *counter.Batch) (done bool, err error)) (done bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, find.ErrGone
		}
		select {
		case c.c.srv.queries <- struct{}{}:
		case <-ctx.Done():
			return false, find.ErrGone
		}
		refusal, held := c.c.srv.role.Judge(flags, false)
		if refusal == "" && !held {
			break
		}
		<-c.c.srv.queries
		if refusal != "" {
			return false, items.Refusal(refusal)
		}
		c.c.srv.role.Unheld(ctx, flags, false)
	}
	done, err = c.takeStep(flags, begin, step)
	if flags&command.Write != 0 { // a million changes must not wait in memory for the last one
		err = errors.Join(err, c.c.call.commitBatch())
	}
	return done, err
}

// takeStep takes a step, rests, and lets others have their turn.
func (c findConn) takeStep(flags command.Flags, begin func(*counter.Batch) error, step func(b *counter.Batch) (done bool, err error)) (done bool, err error) {
	defer func() { <-c.c.srv.queries }()
	if err := begin(c.c.call.items.Batch); err != nil {
		return false, err
	}
	if text := c.c.routing.unwritten(flags); text != "" {
		c.c.call.items.Batch.End()
		return false, items.Refusal(text)
	}
	began := time.Now()
	done, err = step(c.c.call.items.Batch)
	c.c.call.items.Batch.End()
	if now := time.Now(); !done && err == nil {
		time.Sleep(c.c.srv.pace.rest(now, c.c.srv.stats.InBytes.Load(), now.Sub(began)))
	}
	return done, err
}
