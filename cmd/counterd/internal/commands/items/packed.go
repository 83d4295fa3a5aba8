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
	ops := c.Batch.Extend(len(ids) / resp.PackedID)
	for i := range ops {
		mid, rest := resp.TakePackedID(ids)
		if mid > schema.MaxMid {
			c.Batch.Truncate(first)
			c.oweError(ErrSyntax)
			return
		}
		op := &ops[i]
		op.Kind, op.Counter, op.Mid, op.Column = counter.OpRead, def, mid, -1
		ids = rest
	}
	counter.ReadSet(c.Batch, first)
	c.owe(replyPacked, first, c.Batch.Len()-first)
}

// PlanRows plans COUNTER.MGET of posts whose ids were read already, and whose groups of hash slots are known. packed tells whether the rows are to be
// packed. REQUIRES MaxPacked posts at most.
func (c *Call) PlanRows(name []byte, mids []uint64, groups []uint8, packed bool) {
	def := c.Batch.Schema().CounterNamed(name)
	if def == nil { // since the caller looked
		c.oweError(ErrNoCounter(name))
		return
	}
	first := c.Batch.Len()
	counter.ReadPosts(c.Batch, def, mids, groups)
	counter.ReadSet(c.Batch, first)
	reply := replyRows
	if packed {
		reply = replyPacked
	}
	c.owe(reply, first, len(mids))
}

// replyPacked answers, for n items, all columns in packed rows.
func replyPacked(c *Call, o *Owed) {
	c.spoilt = nil
	start := c.Out.BeginPacked()
	for i, n := 0, int(o.n); i < n; {
		end := min(n, i-i%seriesPart+seriesPart) // breath is a multiple
		ops := c.Batch.Ops(int(o.op)+i, end-i)
		if values, found := c.Batch.Rows(ops); found > 0 {
			c.Out.PackedInts(values, found)
			i += found
		} else if !c.replyNoPackedRow(start, int(o.n), &ops[0]) {
			return
		} else {
			i++
		}
		c.Breathe(i - 1)
	}
	c.Out.EndPacked(start)
}

// replyNoPackedRow answers for one of n items of a packed reply that begins at start: it is absent, or could not be read. false: the whole reply is an error.
func (c *Call) replyNoPackedRow(start, n int, op *counter.Op) bool {
	at := c.Out.BeginRow()
	if op.Err != nil {
		if c.opError(op); c.spoilt != nil {
			c.spoil(start, 0, n)
			return false
		}
	}
	c.Out.EndRow(at)
	return true
}
