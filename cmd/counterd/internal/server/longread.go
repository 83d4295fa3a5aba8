package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/internal/monotonic"
)

// longArgs is the most arguments that a command may have in a loop: 512 keys are 0.1 ms where all are misses of the
// cache, and 65,000 of them would have all others of the loop wait for 40 ms. Those with more leave it.
const longArgs = 512

// sliced tells whether a command of very many arguments is planned with pauses: all reads, and changes without a number.
func (c *call) sliced(cmd *row, args [][]byte) bool {
	return cmd.Reads() || c.numbers.Producer == nil && (cmd.Flags&command.Idmp == 0 || idmp.TailLen(args) == 0)
}

// runLong executes a command on very many items, and lets others have their turn meanwhile. It is planned and answered with pauses,
// without the store's gate. A read is run in slices (counter.Batch.RunLong). A change is one change set, so it is run in one piece, when its blocks
// were found.
// false: the meaning of its keys, or the node's role, has changed while it was planned, and it has to be decided on again.
// REQUIRES not InLoop.
func (c *call) runLong(cmd *row, args [][]byte) (done bool) {
	c.flush()
	c.items.Pause = c.srv.front.GiveWay
	defer func() { c.items.Pause = nil }()
	began := monotonic.Now()
	done, err := c.tryLong(cmd, args)
	if done {
		if cmd.Reads() && !c.ack.Pending() && c.items.Out.Len() == 0 {
			c.items.Out.TakeLarge() // memory that grows to 1 MiB is moved in pieces of half of it
		}
		c.deferCommit()
		c.reply(began)
		return true
	}
	clear(c.items.Owed)
	c.items.Owed, c.runs = c.items.Owed[:0], c.runs[:0]
	c.items.Batch.Reset()
	if err != nil {
		c.items.StoreError(err)
	}
	return err != nil
}

// tryLong plans and runs a long command; false without an error: see runLong.
func (c *call) tryLong(cmd *row, args [][]byte) (done bool, err error) {
	c.items.Batch.Reset()
	names := c.items.Batch.Schema()
	c.items.Batch.Grow(len(args))
	cmd.Plan(&c.items, args)
	if !cmd.Reads() {
		c.items.Batch.Locate(names, c.items.Pause)
	}
	if err := c.items.Batch.Begin(); err != nil {
		return false, err
	}
	if c.items.Batch.Schema() == names && c.srv.role.Lets(cmd.Flags) {
		if c.opened(); c.observed {
			c.observe(cmd, args)
		}
		c.runs = append(c.runs, run{cmd, 1, 0})
		if !cmd.Reads() {
			c.items.Batch.Run()
			c.touched()
			done = true
		} else if done, err = c.items.Batch.RunLong(c.srv.front.GiveWay); err != nil {
			return false, err
		}
	}
	c.items.Batch.End()
	return done, nil
}
