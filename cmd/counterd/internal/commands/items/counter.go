package items

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// counterd's own commands: counters by the page.

// CounterMGet: COUNTER.MGET counter mid [mid ...] [COLUMNS column [column ...]], the timeline's read. A client that
// names columns gets those, even if other columns were added or dropped since.
func CounterMGet(c *Call, args [][]byte) {
	def := c.Batch.Schema().CounterNamed(args[1])
	if def == nil {
		c.oweError(ErrNoCounter(args[1]))
		return
	}
	if c.Packed && len(args) == 4 && string(args[2]) == resp.Packed {
		planPacked(c, def, args[3])
		return
	}
	first, reply, rest := c.Batch.Len(), replyRows, args[2:]
	for len(rest) > 0 {
		n, text := c.planRows(def, rest[:min(len(rest), breath)])
		if rest = rest[n:]; text != "" && resp.EqualFold(rest[0], "COLUMNS") && c.Batch.Len() > first {
			reply, text = chosenRows(def, rest[1:])
			rest = nil
		}
		if text != "" {
			c.Batch.Truncate(first)
			c.oweError(text)
			return
		}
		if len(rest) > 0 {
			c.Breathe(breath - 1)
		}
	}
	counter.ReadSet(c.Batch, first)
	c.owe(reply, first, c.Batch.Len()-first)
	counter.Ahead(c.Batch, c.Batch.Len())
}

// planRows plans the reads of posts, as far as mids are such. It returns how many they are; text is the error of the next one.
func (c *Call) planRows(def *schema.Counter, mids [][]byte) (n int, text string) {
	ops := c.Batch.Extend(len(mids))
	for i, a := range mids {
		mid, ok := schema.ParseMid(a)
		if !ok {
			c.Batch.Truncate(c.Batch.Len() - len(mids) + i)
			return i, ErrNoMid(a)
		}
		op := &ops[i]
		op.Kind, op.Counter, op.Mid, op.Column = counter.OpRead, def, mid, -1
	}
	return len(mids), ""
}

// chosenRows is replyRows of some columns; text is the error. A column may be named twice, but 4,000 posts with a column named 4,000
// times, a command of 76 KB, would have a reply of 224 MB.
func chosenRows(def *schema.Counter, names [][]byte) (reply func(*Call, *Owed), text string) {
	if len(names) == 0 {
		return nil, "ERR syntax error"
	}
	if len(names) > schema.MaxColumns {
		return nil, fmt.Sprintf("ERR COUNTER.MGET: got %d columns behind COLUMNS, want at most %d", len(names), schema.MaxColumns)
	}
	columns := make([]uint8, len(names))
	for i, name := range names {
		column, ok := def.Field(name)
		if !ok {
			return nil, errNoField(def, name)
		}
		columns[i] = uint8(column)
	}
	return func(c *Call, o *Owed) { c.replyColumns(o, columns) }, ""
}

// ErrNoCounter is the answer to a name that is no counter's.
func ErrNoCounter(name []byte) string {
	return "ERR no counter '" + resp.Printable(name, 128) + "' (see SCHEMA)"
}

// CounterMIncrBy: COUNTER.MINCRBY key n [key n ...] [QUIET]. All keys and numbers are checked first; an addition that
// would leave its column's range is answered by an error in its place, and the others are made. With QUIET the answer
// is how many were made, and it is a group, as it is with a number.
func CounterMIncrBy(c *Call, args [][]byte) {
	if c.numbered != nil {
		c.numbered.each = true
	}
	quiet := len(args)%2 == 0 && resp.EqualFold(args[len(args)-1], "QUIET")
	if quiet {
		args = args[:len(args)-1]
	}
	if len(args)%2 == 0 || len(args) < 3 {
		c.oweError("ERR wrong number of arguments for 'counter.mincrby' command (usage: COUNTER.MINCRBY key increment [key increment ...] [QUIET] [IDMP producer seq [EPOCH epoch]])")
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
	if quiet {
		c.Batch.ChangeSet(first) // the reply has no place for the error of one refused column
		c.owe(replyMade, first, n)
		return
	}
	c.oweArray(first, n)
	for i := range n {
		c.owe(replyAdd, first+i, 1)
	}
}

// replyMade answers how many of n additions were made, unless one was refused for another reason than its range.
func replyMade(c *Call, o *Owed) {
	made := int64(0)
	for i := range int(o.n) {
		switch op := c.Batch.Op(int(o.op) + i); {
		case op.Err == nil:
			made++
		case !errors.Is(op.Err, counter.ErrOutOfRange):
			c.opError(op)
			return
		}
	}
	c.Out.Int(made)
}

// CounterDrain: COUNTER.DRAIN key [key ...] reads several numbers and resets them, as one change.
func CounterDrain(c *Call, args [][]byte) {
	first := c.Batch.Len()
	for _, a := range args[1:] {
		text := ""
		k, ok := c.key(a)
		switch {
		case !ok:
			text = errNoKey(c.Batch.Schema(), a, false)
		case whole(k):
			text = ErrWrongType
		case removes(k): // an item of one number: its row goes
			c.op(counter.OpGet, k, 0)
			c.op(counter.OpDelete, k, 0)
		default:
			c.op(counter.OpReset, k, 0)
		}
		if text == "" && c.Batch.Len()-first > counter.MaxChangeSet {
			text = errTooMany
		}
		if text != "" {
			c.Batch.Truncate(first)
			c.oweError(text)
			return
		}
	}
	c.Batch.ChangeSet(first)
	c.owe(replyDrained, first, c.Batch.Len()-first)
}

// replyDrained answers what n operations found.
func replyDrained(c *Call, o *Owed) {
	if c.firstError(o) {
		return
	}
	keys := 0
	for i := range int(o.n) {
		if c.Batch.Op(int(o.op)+i).Kind != counter.OpDelete {
			keys++
		}
	}
	c.Out.Array(keys)
	for i := range int(o.n) {
		switch op := c.Batch.Op(int(o.op) + i); {
		case op.Kind == counter.OpDelete:
		case op.Found:
			c.Out.BulkUint(op.Value)
		default:
			c.Out.Null()
		}
	}
}

// ErrNoMid is the answer to a number that is no mid.
func ErrNoMid(mid []byte) string {
	return "ERR '" + resp.Printable(mid, 128) + "' is not a mid: want 0..9223372036854775807"
}
