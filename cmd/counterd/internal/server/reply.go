package server

import (
	"errors"

	"github.com/counterd/counterd/counter"
)

// Replies that are owed for operations of the batch. o.op is the first operation, o.n what the comment says.

func replyError(c *client, o *owed) { c.out.Error(o.text) }

func replyStatus(c *client, o *owed) { c.out.Status(o.text) }

func replyNull(c *client, _ *owed) { c.out.Null() }

// replyNumber answers n itself.
func replyNumber(c *client, o *owed) { c.integer(int64(o.n)) }

func (c *client) oweNumber(n int) { c.owe(replyNumber, 0, n) }

// replyArray is the head of an array of n.
func replyArray(c *client, o *owed) { c.array(int(o.n)) }

// replyGet answers the value as a bulk string, null where absent.
func replyGet(c *client, o *owed) {
	op := c.batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case op.Found:
		c.out.BulkUint(op.Value)
	default:
		c.out.Null()
	}
}

// replyWrongType is the answer to a string command on a whole item: null where absent, like any absent key.
func replyWrongType(c *client, o *owed) {
	if op := c.batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.out.Error(errWrongType)
	} else {
		c.out.Null()
	}
}

// replyAdd answers the new value as an integer.
func replyAdd(c *client, o *owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	c.integer(int64(op.Value))
}

// refused answers with an error where an operation could not be done, as its cold page cannot be read; false if it could.
func (c *client) refused(op *counter.Op) bool {
	if op.Err == nil {
		return false
	}
	c.opError(op)
	return true
}

// result returns the operation that o waits for, or nil after answering that it could not be done.
func (c *client) result(o *owed) *counter.Op {
	if op := c.batch.Op(int(o.op)); !c.refused(op) {
		return op
	}
	return nil
}

// opError answers why an operation was refused.
func (c *client) opError(op *counter.Op) {
	if !errors.Is(op.Err, counter.ErrOutOfRange) {
		c.storeError(op.Err)
		return
	}
	if op.Kind == counter.OpAdd {
		c.error(errOverflow)
	} else {
		c.error(errNotInteger)
	}
}

// firstError answers the first refusal among n operations; false if there is none.
func (c *client) firstError(o *owed) bool {
	for i := range int(o.n) {
		if op := c.batch.Op(int(o.op) + i); op.Err != nil {
			c.opError(op)
			return true
		}
	}
	return false
}

// replyOK answers OK unless one of n operations was refused.
func replyOK(c *client, o *owed) {
	if !c.firstError(o) {
		c.ok()
	}
}

// replyFoundCount answers how many of n operations found their item.
func replyFoundCount(c *client, o *owed) {
	if c.firstError(o) {
		return
	}
	found := int64(0)
	for i := range int(o.n) {
		if c.batch.Op(int(o.op) + i).Found {
			found++
		}
	}
	c.integer(found)
}

// replyRow answers all columns of an item as an array of integers, null where absent; n times.
func replyRows(c *client, o *owed) {
	c.array(int(o.n))
	for i := range int(o.n) {
		op := c.batch.Op(int(o.op) + i)
		if c.refused(op) {
			continue
		}
		row := c.batch.Row(op)
		if row == nil {
			c.out.NullArray()
			continue
		}
		c.array(len(row))
		for _, v := range row {
			c.integer(int64(v))
		}
	}
}
