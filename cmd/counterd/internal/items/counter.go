package items

import (
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// counterd's own commands: counters by the page.

// CounterMGet: COUNTER.MGET counter mid [mid ...], the timeline's read.
func CounterMGet(c *Call, args [][]byte) {
	def := c.Batch.Schema().CounterNamed(args[1])
	if def == nil {
		c.oweError(ErrNoCounter(args[1]))
		return
	}
	first := c.Batch.Len()
	for _, a := range args[2:] {
		mid, ok := schema.ParseMid(a)
		if !ok {
			c.Batch.Truncate(first)
			c.oweError(ErrNoMid(a))
			return
		}
		op := c.Batch.Next()
		op.Kind, op.Counter, op.Mid, op.Column = counter.OpRead, def, mid, -1
	}
	c.Batch.Group(first)
	c.owe(replyRows, first, c.Batch.Len()-first)
}

// ErrNoCounter is the answer to a name that is no counter's.
func ErrNoCounter(name []byte) string {
	return "ERR no counter '" + resp.Printable(name, 128) + "' (see SCHEMA)"
}

// CounterMIncrBy: COUNTER.MINCRBY key n [key n ...]. All keys and numbers are checked first; an addition that would
// leave its column's range is answered by an error in its place, and the others are made.
func CounterMIncrBy(c *Call, args [][]byte) {
	if len(args)%2 == 0 {
		c.oweError("ERR wrong number of arguments for 'counter.mincrby' command")
		return
	}
	first := c.Batch.Len()
	for i := 1; i < len(args); i += 2 {
		k, ok := c.key(args[i])
		text := ""
		if !ok {
			text = errNoKey(c.Batch.Schema(), args[i], false)
		} else if whole(k) {
			text = ErrWrongType
		}
		n, ok := resp.Number(args[i+1])
		if text == "" && !ok {
			text = ErrNotInteger
		}
		if text != "" {
			c.Batch.Truncate(first)
			c.oweError(text)
			return
		}
		c.op(counter.OpAdd, k, uint64(n))
	}
	n := c.Batch.Len() - first
	c.owe(replyArray, 0, n)
	for i := range n {
		c.owe(replyAdd, first+i, 1)
	}
}

// ErrNoMid is the answer to a number that is no mid.
func ErrNoMid(mid []byte) string {
	return "ERR '" + resp.Printable(mid, 128) + "' is not a mid: want 0..9223372036854775807"
}
