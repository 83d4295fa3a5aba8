package server

import (
	"strconv"

	"github.com/counterd/counterd/counter"
)

// String commands: a key with a column is a string of digits.

func planGet(c *client, args [][]byte) {
	k, ok := c.key(args[1])
	switch {
	case !ok:
		c.owe(replyNull, 0, 0)
	case whole(k):
		c.owe(replyWrongType, c.op(counter.OpExists, k, 0), 0)
	default:
		c.owe(replyGet, c.op(counter.OpGet, k, 0), 0)
	}
}

// planMGet answers null for whole items, as Redis does for keys that are not strings.
func planMGet(c *client, args [][]byte) {
	c.owe(replyArray, 0, len(args)-1)
	first := c.batch.Len()
	for _, a := range args[1:] {
		if k, ok := c.key(a); ok && !whole(k) {
			c.owe(replyGet, c.op(counter.OpGet, k, 0), 0)
		} else {
			c.owe(replyNull, 0, 0)
		}
	}
	c.batch.Group(first)
}

func planStrlen(c *client, args [][]byte) {
	k, ok := c.key(args[1])
	switch {
	case !ok:
		c.oweNumber(0)
	case whole(k):
		c.owe(replyStrlen, c.op(counter.OpExists, k, 0), 1)
	default:
		c.owe(replyStrlen, c.op(counter.OpGet, k, 0), 0)
	}
}

func replyStrlen(c *client, o *owed) {
	op := c.batch.Op(int(o.op))
	switch {
	case c.refused(op):
	case !op.Found:
		c.integer(0)
	case o.n == 1:
		c.error(errWrongType)
	default:
		var digits [20]byte
		c.integer(int64(len(strconv.AppendUint(digits[:0], op.Value, 10))))
	}
}

// planAddition is INCR, DECR, INCRBY and DECRBY.
func planAddition(c *client, key []byte, n int64) {
	k, ok := c.key(key)
	switch {
	case !ok:
		c.oweError(errNoKey(c.batch.Schema(), key, false))
	case whole(k):
		c.oweError(errWrongType)
	default:
		c.owe(replyAdd, c.op(counter.OpAdd, k, uint64(n)), 1)
	}
}

func planIncr(c *client, args [][]byte) { planAddition(c, args[1], 1) }
func planDecr(c *client, args [][]byte) { planAddition(c, args[1], -1) }

func planIncrBy(c *client, args [][]byte) {
	n, ok := number(args[2])
	if !ok {
		c.oweError(errNotInteger)
		return
	}
	planAddition(c, args[1], n)
}

func planDecrBy(c *client, args [][]byte) {
	n, ok := number(args[2])
	switch {
	case !ok:
		c.oweError(errNotInteger)
	case n == -1<<63:
		c.oweError("ERR decrement would overflow")
	default:
		planAddition(c, args[1], -n)
	}
}

// planSet: SET key value [NX | XX] [GET] [KEEPTTL]. Options that a counter lacks are refused, not ignored.
func planSet(c *client, args [][]byte) {
	cond, get := counter.Always, false
	for i := 3; i < len(args); i++ {
		switch {
		case equalFold(args[i], "NX") && cond != counter.IfPresent:
			cond = counter.IfAbsent
		case equalFold(args[i], "XX") && cond != counter.IfAbsent:
			cond = counter.IfPresent
		case equalFold(args[i], "GET"):
			get = true
		case equalFold(args[i], "KEEPTTL"): // there is none to lose
		case (equalFold(args[i], "EX") || equalFold(args[i], "PX") || equalFold(args[i], "EXAT") || equalFold(args[i], "PXAT")) && i+1 < len(args):
			c.oweError("ERR counters do not expire: SET takes NX, XX, GET and KEEPTTL here")
			return
		default:
			c.oweError(errSyntax)
			return
		}
	}
	if !get && c.planStoreWhole(args[1], cond, replyNull) {
		return
	}
	i := c.planStore(args[1], args[2], cond)
	switch {
	case i < 0:
	case get:
		c.batch.Op(i).Before = true
		c.owe(replyGet, i, 0)
	default:
		c.owe(replySet, i, 1)
	}
}

// planStoreWhole answers a conditional write of a number to a key that names a whole item: unmet where the condition is not met, whatever the key
// holds, else WRONGTYPE. It is false for all other writes.
func (c *client) planStoreWhole(key []byte, cond counter.Cond, unmet func(*client, *owed)) bool {
	k, ok := c.key(key)
	if cond == counter.Always || !ok || !whole(k) {
		return false
	}
	c.owe(func(c *client, o *owed) {
		op := c.result(o)
		switch {
		case op == nil:
		case op.Found == (cond == counter.IfPresent):
			c.error(errWrongType)
		default:
			unmet(c, o)
		}
	}, c.op(counter.OpExists, k, 0), 0)
	return true
}

// planStore adds an OpSet, or owes the reason why not and returns -1.
func (c *client) planStore(key, val []byte, cond counter.Cond) int {
	k, ok := c.key(key)
	switch {
	case !ok:
		c.oweError(errNoKey(c.batch.Schema(), key, false))
		return -1
	case whole(k):
		c.oweError(errWrongType)
		return -1
	}
	v, ok := value(val)
	if !ok {
		c.oweError(errNotInteger)
		return -1
	}
	i := c.op(counter.OpSet, k, v)
	c.batch.Op(i).Cond = cond
	return i
}

// replySet answers OK, null where NX or XX was not met, or the error.
func replySet(c *client, o *owed) {
	op := c.batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case !op.Done:
		replyNull(c, o)
	default:
		c.ok()
	}
}

func planSetNX(c *client, args [][]byte) {
	if c.planStoreWhole(args[1], counter.IfAbsent, replyZero) {
		return
	}
	if i := c.planStore(args[1], args[2], counter.IfAbsent); i >= 0 {
		c.owe(replySetNX, i, 1)
	}
}

func replySetNX(c *client, o *owed) {
	op := c.batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case op.Done:
		c.integer(1)
	default:
		c.integer(0)
	}
}

func planGetSet(c *client, args [][]byte) {
	if i := c.planStore(args[1], args[2], counter.Always); i >= 0 {
		c.batch.Op(i).Before = true
		c.owe(replyGet, i, 1)
	}
}

// planGetDel reads and resets a column, or reads and removes an item whose key is the number itself.
func planGetDel(c *client, args [][]byte) {
	k, ok := c.key(args[1])
	switch {
	case !ok:
		c.owe(replyNull, 0, 0)
	case whole(k):
		c.owe(replyWrongType, c.op(counter.OpExists, k, 0), 0)
	case removes(k):
		i := c.op(counter.OpGet, k, 0)
		c.op(counter.OpDelete, k, 0)
		c.batch.Group(i)
		c.owe(func(c *client, o *owed) {
			if removed := c.batch.Op(int(o.op) + 1); removed.Err != nil {
				c.opError(removed)
				return
			}
			replyGet(c, o)
		}, i, 0)
	default:
		c.owe(replyGet, c.op(counter.OpReset, k, 0), 0)
	}
}

// planMSet makes all changes or none: keys and values are checked here, the rest by the group.
func planMSet(c *client, args [][]byte) {
	if len(args)%2 == 0 {
		c.oweError("ERR wrong number of arguments for 'mset' command")
		return
	}
	first := c.batch.Len()
	for i := 1; i < len(args); i += 2 {
		op := c.planStore(args[i], args[i+1], counter.Always)
		if op >= 0 {
			o := c.batch.Op(op)
			if o.Arg > o.Counter.Columns[o.Column].Limit() {
				c.oweError(errNotInteger)
				op = -1
			}
		}
		if op < 0 {
			c.batch.Truncate(first)
			return
		}
	}
	c.batch.Group(first)
	c.owe(replyOK, first, c.batch.Len()-first)
}

// equalFold compares with an upper-case ASCII word.
func equalFold(b []byte, upper string) bool {
	if len(b) != len(upper) {
		return false
	}
	for i, ch := range b {
		if 'a' <= ch && ch <= 'z' {
			ch -= 'a' - 'A'
		}
		if ch != upper[i] {
			return false
		}
	}
	return true
}
