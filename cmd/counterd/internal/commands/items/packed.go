package items

import (
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// MaxPacked is how many posts a packed page has at most. Commands of more arguments are not executed in an event loop.
const MaxPacked = 510

// planPacked plans COUNTER.MGET counter PACKED ids, as nodes of a cluster send it: see the format in package resp.
func planPacked(c *Call, def *schema.Counter, ids []byte) {
	if len(ids) == 0 || len(ids)%resp.PackedID != 0 || len(ids) > MaxPacked*resp.PackedID {
		c.oweError(ErrSyntax)
		return
	}
	first := c.Batch.Len()
	for i := 0; len(ids) > 0; i++ {
		c.Breathe(i)
		mid, rest := resp.TakePackedID(ids)
		if mid > schema.MaxMid {
			c.Batch.Truncate(first)
			c.oweError(ErrSyntax)
			return
		}
		op := c.Batch.Next()
		op.Kind, op.Counter, op.Mid, op.Column = counter.OpRead, def, mid, -1
		ids = rest
	}
	c.Batch.ChangeSet(first)
	reply := replyPacked
	if c.Packed == PackedIDs {
		reply = replyRows
	}
	c.owe(reply, first, c.Batch.Len()-first)
}

// replyPacked answers, for n items, all columns in packed rows.
func replyPacked(c *Call, o *Owed) {
	c.spoilt = nil
	start := c.Out.BeginPacked()
	for i := range int(o.n) {
		c.Breathe(i)
		op := c.Batch.Op(int(o.op) + i)
		at := c.Out.BeginRow()
		if op.Err != nil {
			c.opError(op)
			if c.spoilt != nil {
				c.spoil(start, 0, int(o.n))
				return
			}
		} else if op.Found {
			c.Out.Ints(c.Batch.Row(op))
		}
		c.Out.EndRow(at)
	}
	c.Out.EndPacked(start)
}
