package items

import (
	"errors"

	"github.com/counterd/counterd/counter"
)

// Replies that are owed for operations of the batch. o.op is the first operation, o.n what the comment says.

func replyError(c *Call, o *Owed) { c.Out.Error(o.text) }

func replyStatus(c *Call, o *Owed) { c.Out.Status(o.text) }

func replyNull(c *Call, _ *Owed) { c.Out.Null() }

// replyNumber answers n itself.
func replyNumber(c *Call, o *Owed) { c.Out.Int(int64(o.n)) }

func (c *Call) oweNumber(n int) { c.owe(replyNumber, 0, n) }

// replyGet answers the value as a bulk string, null where absent.
func replyGet(c *Call, o *Owed) {
	op := c.Batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case op.Found:
		c.Out.BulkUint(op.Value)
	default:
		c.Out.Null()
	}
}

// replyWrongType is the answer to a string command on a whole item: null where absent, like any absent key.
func replyWrongType(c *Call, o *Owed) {
	if op := c.Batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.Out.Error(ErrWrongType)
	} else {
		c.Out.Null()
	}
}

// replyAdd answers the new value as an integer.
func replyAdd(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	c.Out.Int(int64(op.Value))
}

// refused answers with an error where an operation could not be done, as its cold page cannot be read; false if it
// could.
func (c *Call) refused(op *counter.Op) bool {
	if op.Err == nil {
		return false
	}
	c.opError(op)
	return true
}

// result returns the operation that o waits for, or nil after answering that it could not be done.
func (c *Call) result(o *Owed) *counter.Op {
	if op := c.Batch.Op(int(o.op)); !c.refused(op) {
		return op
	}
	return nil
}

// opError answers why an operation was refused.
func (c *Call) opError(op *counter.Op) {
	if !standsInside(op.Err) {
		c.spoilt = op.Err
	}
	if !errors.Is(op.Err, counter.ErrOutOfRange) {
		if repeated := (*counter.RepeatedError)(nil); errors.As(op.Err, &repeated) {
			c.AnswerResult(repeated.Result)
			return
		}
		c.StoreError(op.Err)
		return
	}
	if op.Kind == counter.OpAdd {
		c.Out.Error(ErrOverflow)
	} else {
		c.Out.Error(ErrNotInteger)
	}
}

// firstError answers the first refusal among n operations; false if there is none.
func (c *Call) firstError(o *Owed) bool {
	for i := range int(o.n) {
		if op := c.Batch.Op(int(o.op) + i); op.Err != nil {
			c.opError(op)
			return true
		}
	}
	return false
}

// replyOK answers OK unless one of n operations was refused.
func replyOK(c *Call, o *Owed) {
	if !c.firstError(o) {
		c.Out.Status("OK")
	}
}

// replyFoundCount answers how many of n operations found their item.
func replyFoundCount(c *Call, o *Owed) {
	if c.firstError(o) {
		return
	}
	found := int64(0)
	for i := range int(o.n) {
		if c.Batch.Op(int(o.op) + i).Found {
			found++
		}
	}
	c.Out.Int(found)
}

// replyRows answers, for n items, all columns as an array of integers, null where absent.
func replyRows(c *Call, o *Owed) {
	start := c.beginArray(int(o.n))
	for i, n := 0, int(o.n); i < n; {
		end := min(n, i-i%seriesPart+seriesPart) // breath is a multiple
		ops := c.Batch.Ops(int(o.op)+i, end-i)
		if values, found := c.Batch.Rows(ops); found > 0 {
			c.Out.Rows(values, found)
			i += found
		} else if !c.replyNoRow(start, o, &ops[0]) {
			return
		} else {
			i++
		}
		c.Breathe(i - 1)
	}
}

// replyNoRow answers for one of the items of an array that o is owed for and that begins at start: it is absent, or could not be read. false:
// the whole array was answered by an error.
func (c *Call) replyNoRow(start int, o *Owed, op *counter.Op) bool {
	if op.Err == nil {
		c.Out.NullArray()
		return true
	}
	if c.opError(op); c.spoilt != nil {
		c.spoil(start, 0, int(o.n))
		return false
	}
	return true
}

// replyColumns is replyRows of some columns.
func (c *Call) replyColumns(o *Owed, columns []uint8) {
	start := c.beginArray(int(o.n))
	for i := range int(o.n) {
		c.Breathe(i)
		op := c.Batch.Op(int(o.op) + i)
		row := c.Batch.Row(op)
		if row == nil {
			if !c.replyNoRow(start, o, op) {
				return
			}
			continue
		}
		c.Out.Array(len(columns))
		for _, column := range columns {
			c.Out.Int(int64(row[column]))
		}
	}
}
