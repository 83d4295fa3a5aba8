package items

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Hash commands: a whole item is a hash, its columns the fields, by name or by suffix. An item has all its columns from
// the start, so HSET never adds a field to an item that is there.

// item parses a key that must name a whole item. Where it does not, the answer is owed: absent for a key that nobody
// knows (an error if absent is nil, for writes), WRONGTYPE for a single column.
func (c *Call) item(key []byte, absent func(*Call, *Owed)) (k schema.Key, ok bool) {
	if def, mid, ok := c.Batch.Schema().ParseItem(key); ok {
		return schema.Key{Counter: def, Col: -1, Mid: mid}, true
	}
	k, ok = c.key(key)
	switch {
	case ok && absent == nil:
		c.oweError(ErrWrongType)
	case ok:
		c.owe(func(c *Call, o *Owed) {
			if op := c.result(o); op == nil {
				return
			} else if op.Found {
				c.Out.Error(ErrWrongType)
			} else {
				absent(c, o)
			}
		}, c.op(counter.OpExists, k, 0), 0)
	case absent == nil:
		c.oweError(errNoKey(c.Batch.Schema(), key, true))
	default:
		c.owe(absent, 0, 0)
	}
	return k, false
}

func replyEmptyMap(c *Call, _ *Owed)   { c.Out.Map(0) }
func replyEmptyArray(c *Call, _ *Owed) { c.Out.Array(0) }

// errNoField is the answer to a write to a field that the counter has no column for.
func errNoField(def *schema.Counter, field []byte) string {
	return "ERR no column '" + resp.Printable(field, 128) + "' in counter '" + def.Name + "' (see SCHEMA)"
}

// HGet is HGET key field.
func HGet(c *Call, args [][]byte) {
	k, ok := c.item(args[1], replyNull)
	if !ok {
		return
	}
	if k.Col, ok = k.Counter.Field(args[2]); !ok {
		c.owe(replyNull, 0, 0)
		return
	}
	c.owe(replyGet, c.op(counter.OpGet, k, 0), 0)
}

// HMGet is HMGET key field [field ...].
func HMGet(c *Call, args [][]byte) {
	n := len(args) - 2
	k, ok := c.item(args[1], func(c *Call, _ *Owed) {
		c.Out.Array(n)
		for range n {
			c.Out.Null()
		}
	})
	if !ok {
		return
	}
	i := c.op(counter.OpRead, k, 0)
	c.oweArray(i, n)
	for _, f := range args[2:] {
		if col, ok := k.Counter.Field(f); ok {
			c.owe(replyField, i, col)
		} else {
			c.owe(replyNull, 0, 0)
		}
	}
}

// replyField answers column n of a row. All fields are of one item: an error of the item is the whole reply, as with
// HGETALL.
func replyField(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		c.spoilt = c.Batch.Op(int(o.op)).Err
		return
	}
	if row := c.Batch.Row(op); row != nil {
		c.Out.BulkUint(row[o.n])
	} else {
		c.Out.Null()
	}
}

// HGetAll is HGETALL key.
func HGetAll(c *Call, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyMap); ok {
		c.owe(replyHGetAll, c.op(counter.OpRead, k, 0), 0)
	}
}

func replyHGetAll(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	row := c.Batch.Row(op)
	c.Out.Map(len(row))
	for i, v := range row {
		c.Out.BulkString(op.Counter.Col(i).Name)
		c.Out.BulkUint(v)
	}
}

// HKeys is HKEYS key.
func HKeys(c *Call, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyArray); ok {
		c.owe(replyHKeys, c.op(counter.OpExists, k, 0), 0)
	}
}

func replyHKeys(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	if !op.Found {
		c.Out.Array(0)
		return
	}
	c.Out.Array(op.Counter.Width())
	for i := range op.Counter.Width() {
		c.Out.BulkString(op.Counter.Col(i).Name)
	}
}

// HVals is HVALS key.
func HVals(c *Call, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyArray); ok {
		c.owe(replyHVals, c.op(counter.OpRead, k, 0), 0)
	}
}

func replyHVals(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	row := c.Batch.Row(op)
	c.Out.Array(len(row))
	for _, v := range row {
		c.Out.BulkUint(v)
	}
}

func replyZero(c *Call, _ *Owed) { c.Out.Int(0) }

// HLen is HLEN key.
func HLen(c *Call, args [][]byte) {
	if k, ok := c.item(args[1], replyZero); ok {
		c.owe(replyFoundN, c.op(counter.OpExists, k, 0), k.Counter.Width())
	}
}

// replyFoundN answers n where the item exists, else 0.
func replyFoundN(c *Call, o *Owed) {
	if op := c.Batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.Out.Int(int64(o.n))
	} else {
		c.Out.Int(0)
	}
}

// HExists is HEXISTS key field.
func HExists(c *Call, args [][]byte) {
	if k, ok := c.item(args[1], replyZero); ok {
		n := 0
		if _, ok := k.Counter.Field(args[2]); ok {
			n = 1
		}
		c.owe(replyFoundN, c.op(counter.OpExists, k, 0), n)
	}
}

// HStrlen answers the number of digits.
func HStrlen(c *Call, args [][]byte) {
	k, ok := c.item(args[1], replyZero)
	if !ok {
		return
	}
	if k.Col, ok = k.Counter.Field(args[2]); !ok {
		c.oweNumber(0)
		return
	}
	c.owe(replyStrlen, c.op(counter.OpGet, k, 0), 0)
}

// HSet is HSET key field value [field value ...].
func HSet(c *Call, args [][]byte) { c.setFields(args, "hset", replyHSet) }

// HMSet is HMSET key field value [field value ...].
func HMSet(c *Call, args [][]byte) { c.setFields(args, "hmset", replyHMSet) }

// setFields makes all changes or none, as one operation on the item. A field that is named twice gets the last value.
func (c *Call) setFields(args [][]byte, name string, reply func(*Call, *Owed)) {
	if len(args)%2 != 0 {
		c.oweError("ERR wrong number of arguments for '" + name + "' command (usage: " + strings.ToUpper(name) + " key field value [field value ...] [IDMP producer seq [EPOCH epoch]])")
		return
	}
	k, ok := c.item(args[1], nil)
	if !ok {
		return
	}
	pairs := args[2:]
	var room [schema.MaxColumns]int16
	columns := room[:0]
	for i := 0; i < len(pairs); i += 2 {
		column, ok := k.Counter.Field(pairs[i])
		if !ok {
			c.oweError(errNoField(k.Counter, pairs[i]))
			return
		}
		if !slices.Contains(columns, int16(column)) {
			columns = append(columns, int16(column))
		}
	}
	first := c.Batch.Len()
	values := c.Batch.SetRow(k.Counter, k.Mid, c.Batch.Shape(columns, 1))
	for i := 0; i < len(pairs); i += 2 {
		at := i / 2
		if len(values) < len(pairs)/2 { // some are named twice
			column, _ := k.Counter.Field(pairs[i])
			at = slices.Index(columns, int16(column))
		}
		v, ok := value(pairs[i+1])
		if !ok || v > k.Counter.Col(int(columns[at])).Limit() {
			c.Batch.Truncate(first)
			c.oweError(ErrNotInteger)
			return
		}
		values[at] = v
	}
	c.owe(reply, first, len(columns))
}

// replyHSet answers how many fields are new: all n that were named, if the item is; else none.
func replyHSet(c *Call, o *Owed) {
	op := c.result(o)
	switch {
	case op == nil:
	case op.Found:
		c.Out.Int(0)
	default:
		c.Out.Int(int64(o.n))
	}
}

// replyHMSet answers OK unless the change was refused.
func replyHMSet(c *Call, o *Owed) {
	if c.result(o) != nil {
		c.Out.Status("OK")
	}
}

// HSetNX is HSETNX key field value.
func HSetNX(c *Call, args [][]byte) {
	k, ok := c.item(args[1], nil)
	if !ok {
		return
	}
	if k.Col, ok = k.Counter.Field(args[2]); !ok {
		c.oweError(errNoField(k.Counter, args[2]))
		return
	}
	v, ok := value(args[3])
	if !ok {
		c.oweError(ErrNotInteger)
		return
	}
	i := c.op(counter.OpSet, k, v)
	c.Batch.Op(i).Cond = counter.IfAbsent
	c.owe(replySetNX, i, 1)
}

// HIncrBy is HINCRBY key field increment.
func HIncrBy(c *Call, args [][]byte) {
	n, ok := resp.Number(args[3])
	if !ok {
		c.oweError(ErrNotInteger)
		return
	}
	k, ok := c.item(args[1], nil)
	if !ok {
		return
	}
	if k.Col, ok = k.Counter.Field(args[2]); !ok {
		c.oweError(errNoField(k.Counter, args[2]))
		return
	}
	c.owe(replyAdd, c.op(counter.OpAdd, k, uint64(n)), 1)
}

// HDel resets columns; it answers how many of the fields exist.
func HDel(c *Call, args [][]byte) {
	k, ok := c.item(args[1], replyZero)
	if !ok {
		return
	}
	first := c.Batch.Len()
	var seen uint64
	for _, f := range args[2:] {
		if k.Col, ok = k.Counter.Field(f); ok && seen&(1<<k.Col) == 0 {
			seen |= 1 << k.Col
			c.op(counter.OpReset, k, 0)
		}
	}
	c.Batch.ChangeSet(first)
	c.owe(replyFoundCount, first, c.Batch.Len()-first)
}

// HScan answers the whole item at once, as Redis does for small hashes. MATCH and COUNT are read; MATCH filters.
func HScan(c *Call, args [][]byte) {
	if _, ok := ParseCursor(args[2]); !ok {
		c.oweError("ERR invalid cursor")
		return
	}
	empty := func(c *Call, _ *Owed) {
		c.Out.Array(2)
		c.Out.BulkString("0")
		c.Out.Array(0)
	}
	o, text := ParseScan(args[3:], false)
	match := o.Match
	k, ok := c.item(args[1], empty)
	if !ok {
		return
	}
	c.owe(func(c *Call, o *Owed) {
		op := c.result(o)
		switch {
		case op == nil:
			return
		case !op.Found: // Redis does not look at the options then
			empty(c, o)
			return
		case text != "":
			c.Out.Error(text)
			return
		}
		var fields resp.Replies
		n := 0
		for i, v := range c.Batch.Row(op) {
			if name := op.Counter.Col(i).Name; glob.Match(match, name) {
				fields.BulkString(name)
				fields.BulkUint(v)
				n += 2
			}
		}
		c.Out.Array(2)
		c.Out.BulkString("0")
		c.Out.Array(n)
		c.Out.Raw(fields.From(0))
	}, c.op(counter.OpRead, k, 0), 0)
}
