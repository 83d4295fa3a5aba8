package server

import (
	"math/bits"

	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Hash commands: a whole item is a hash, its columns the fields, by name or by suffix. An item has all its columns from the start, so
// HSET never adds a field to an item that is there.

// item parses a key that must name a whole item. Where it does not, the answer is owed: absent for a key that nobody knows (an
// error if absent is nil, for writes), WRONGTYPE for a single column.
func (c *client) item(key []byte, absent func(*client, *owed)) (k schema.Key, ok bool) {
	if def, mid, ok := c.batch.Schema().ParseItem(key); ok {
		return schema.Key{Counter: def, Col: -1, Mid: mid}, true
	}
	k, ok = c.key(key)
	switch {
	case ok && absent == nil:
		c.oweError(errWrongType)
	case ok:
		c.owe(func(c *client, o *owed) {
			if op := c.result(o); op == nil {
				return
			} else if op.Found {
				c.error(errWrongType)
			} else {
				absent(c, o)
			}
		}, c.op(counter.OpExists, k, 0), 0)
	case absent == nil:
		c.oweError(errNoKey(c.batch.Schema(), key, true))
	default:
		c.owe(absent, 0, 0)
	}
	return k, false
}

func replyEmptyMap(c *client, _ *owed)   { c.out.Map(0) }
func replyEmptyArray(c *client, _ *owed) { c.array(0) }

// errNoField is the answer to a write to a field that the counter has no column for.
func errNoField(def *schema.Counter, field []byte) string {
	return "ERR no column '" + printable(field, 128) + "' in counter '" + def.Name + "' (see SCHEMA)"
}

func planHGet(c *client, args [][]byte) {
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

func planHMGet(c *client, args [][]byte) {
	n := len(args) - 2
	k, ok := c.item(args[1], func(c *client, _ *owed) {
		c.array(n)
		for range n {
			c.out.Null()
		}
	})
	if !ok {
		return
	}
	i := c.op(counter.OpRead, k, 0)
	c.owe(replyArray, 0, n)
	for _, f := range args[2:] {
		if col, ok := k.Counter.Field(f); ok {
			c.owe(replyField, i, col)
		} else {
			c.owe(replyNull, 0, 0)
		}
	}
}

// replyField answers column n of a row.
func replyField(c *client, o *owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	if row := c.batch.Row(op); row != nil {
		c.out.BulkUint(row[o.n])
	} else {
		c.out.Null()
	}
}

func planHGetAll(c *client, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyMap); ok {
		c.owe(replyHGetAll, c.op(counter.OpRead, k, 0), 0)
	}
}

func replyHGetAll(c *client, o *owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	row := c.batch.Row(op)
	c.out.Map(len(row))
	for i, v := range row {
		c.bulk(op.Counter.Columns[i].Name)
		c.out.BulkUint(v)
	}
}

func planHKeys(c *client, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyArray); ok {
		c.owe(replyHKeys, c.op(counter.OpExists, k, 0), 0)
	}
}

func replyHKeys(c *client, o *owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	if !op.Found {
		c.array(0)
		return
	}
	c.array(len(op.Counter.Columns))
	for i := range op.Counter.Columns {
		c.bulk(op.Counter.Columns[i].Name)
	}
}

func planHVals(c *client, args [][]byte) {
	if k, ok := c.item(args[1], replyEmptyArray); ok {
		c.owe(replyHVals, c.op(counter.OpRead, k, 0), 0)
	}
}

func replyHVals(c *client, o *owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	row := c.batch.Row(op)
	c.array(len(row))
	for _, v := range row {
		c.out.BulkUint(v)
	}
}

func replyZero(c *client, _ *owed) { c.integer(0) }

func planHLen(c *client, args [][]byte) {
	if k, ok := c.item(args[1], replyZero); ok {
		c.owe(replyFoundN, c.op(counter.OpExists, k, 0), len(k.Counter.Columns))
	}
}

// replyFoundN answers n where the item exists, else 0.
func replyFoundN(c *client, o *owed) {
	if op := c.batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.integer(int64(o.n))
	} else {
		c.integer(0)
	}
}

func planHExists(c *client, args [][]byte) {
	if k, ok := c.item(args[1], replyZero); ok {
		n := 0
		if _, ok := k.Counter.Field(args[2]); ok {
			n = 1
		}
		c.owe(replyFoundN, c.op(counter.OpExists, k, 0), n)
	}
}

// planHStrlen answers the number of digits.
func planHStrlen(c *client, args [][]byte) {
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

func planHSet(c *client, args [][]byte)  { c.planHashSet(args, "hset", replyHSet) }
func planHMSet(c *client, args [][]byte) { c.planHashSet(args, "hmset", replyOK) }

// planHashSet makes all changes or none: fields and values are checked here, the rest by the group.
func (c *client) planHashSet(args [][]byte, name string, reply func(*client, *owed)) {
	if len(args)%2 != 0 {
		c.oweError("ERR wrong number of arguments for '" + name + "' command")
		return
	}
	k, ok := c.item(args[1], nil)
	if !ok {
		return
	}
	first := c.batch.Len()
	for i := 2; i < len(args); i += 2 {
		text := ""
		var v uint64
		if k.Col, ok = k.Counter.Field(args[i]); !ok {
			text = errNoField(k.Counter, args[i])
		} else if v, ok = value(args[i+1]); !ok || v > k.Counter.Columns[k.Col].Limit() {
			text = errNotInteger
		}
		if text != "" {
			c.batch.Truncate(first)
			c.oweError(text)
			return
		}
		c.op(counter.OpSet, k, v)
	}
	c.batch.Group(first)
	c.owe(reply, first, c.batch.Len()-first)
}

// replyHSet answers how many fields are new: all that were named, each once, if the item is; else none.
func replyHSet(c *client, o *owed) {
	if c.firstError(o) {
		return
	}
	if c.batch.Op(int(o.op)).Found {
		c.integer(0)
		return
	}
	var fields uint64 // a counter has at most 64 columns
	for i := range int(o.n) {
		fields |= 1 << c.batch.Op(int(o.op)+i).Column
	}
	c.integer(int64(bits.OnesCount64(fields)))
}

func planHSetNX(c *client, args [][]byte) {
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
		c.oweError(errNotInteger)
		return
	}
	i := c.op(counter.OpSet, k, v)
	c.batch.Op(i).Cond = counter.IfAbsent
	c.owe(replySetNX, i, 1)
}

func planHIncrBy(c *client, args [][]byte) {
	n, ok := number(args[3])
	if !ok {
		c.oweError(errNotInteger)
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

// planHDel resets columns; it answers how many of the fields exist.
func planHDel(c *client, args [][]byte) {
	k, ok := c.item(args[1], replyZero)
	if !ok {
		return
	}
	first := c.batch.Len()
	var seen uint64
	for _, f := range args[2:] {
		if k.Col, ok = k.Counter.Field(f); ok && seen&(1<<k.Col) == 0 {
			seen |= 1 << k.Col
			c.op(counter.OpReset, k, 0)
		}
	}
	c.batch.Group(first)
	c.owe(replyFoundCount, first, c.batch.Len()-first)
}

// planHScan answers the whole item at once, as Redis does for small hashes. MATCH and COUNT are read; MATCH filters.
func planHScan(c *client, args [][]byte) {
	if _, ok := parseCursor(args[2]); !ok {
		c.oweError("ERR invalid cursor")
		return
	}
	empty := func(c *client, _ *owed) {
		c.array(2)
		c.bulk("0")
		c.array(0)
	}
	o, text := parseScan(args[3:], false)
	match := o.match
	k, ok := c.item(args[1], empty)
	if !ok {
		return
	}
	c.owe(func(c *client, o *owed) {
		op := c.result(o)
		switch {
		case op == nil:
			return
		case !op.Found: // Redis does not look at the options then
			empty(c, o)
			return
		case text != "":
			c.error(text)
			return
		}
		var fields resp.Replies
		n := 0
		for i, v := range c.batch.Row(op) {
			if name := op.Counter.Columns[i].Name; matchGlob(match, name) {
				fields.BulkString(name)
				fields.BulkUint(v)
				n += 2
			}
		}
		c.array(2)
		c.bulk("0")
		c.array(n)
		c.out.Raw(fields.From(0))
	}, c.op(counter.OpRead, k, 0), 0)
}
