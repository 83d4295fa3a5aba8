package server

import "time"

// longArgs is the most arguments that a command may have in a loop: 512 keys are 0.1 ms where all are misses of the
// cache, and 65,000 of them would have all others of the loop wait for 40 ms. Those with more leave it.
const longArgs = 512

// readLong executes a read of very many items: it is planned without the store's gate, run in slices (counter.Batch.RunLong)
// and answered, and lets others have their turn all the while. REQUIRES not InLoop.
func (c *call) readLong(cmd *row, args [][]byte) {
	c.flush()
	c.items.Pause = c.srv.front.GiveWay
	defer func() { c.items.Pause = nil }()
	began := time.Now()
	for {
		done, err := c.tryLong(cmd, args)
		if done {
			c.runs = append(c.runs, run{cmd, 1, 0})
			c.deferCommit()
			c.reply(began)
			return
		}
		clear(c.items.Owed)
		c.items.Owed = c.items.Owed[:0]
		if err != nil {
			c.items.StoreError(err)
			return
		}
	}
}

// tryLong plans and runs a long read; false without an error: the meaning of its keys has changed meanwhile.
func (c *call) tryLong(cmd *row, args [][]byte) (done bool, err error) {
	c.items.Batch.Reset()
	names := c.items.Batch.Schema()
	cmd.Plan(&c.items, args)
	if err := c.items.Batch.Begin(); err != nil {
		return false, err
	}
	if c.items.Batch.Schema() == names {
		if c.opened(); c.observed {
			c.observe(cmd, args)
		}
		if done, err = c.items.Batch.RunLong(c.srv.front.GiveWay); err != nil {
			return false, err
		}
	}
	c.items.Batch.End()
	return done, nil
}
