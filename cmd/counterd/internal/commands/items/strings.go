package items

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// String commands: a key with a column is a string of digits.

// Get is GET key.
func Get(c *Call, args [][]byte) {
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

// GetEach is Get of each of several keys.
func GetEach(c *Call, keys [][]byte) {
	c.each(keys, counter.OpGet, 0, replyGets, func(key []byte) { Get(c, [][]byte{nil, key}) })
}

// MGet answers null for whole items, as Redis does for keys that are not strings.
func MGet(c *Call, args [][]byte) {
	first, head := c.Batch.Len(), len(c.Owed)
	c.oweArray(first, len(args)-1)
	reader := c.Batch.Schema().Reader()
	n, nulls := 0, 0 // operations, and keys of none since the last one
	from := 0        // the first operation whose reply is not owed yet
	for keys := args[1:]; len(keys) > 0; {
		part := keys[:min(len(keys), breath)]
		ops, done := c.Batch.Extend(len(part)), n
		for _, a := range part {
			k, ok := reader.ParseKey(a)
			if !ok || whole(k) {
				from = c.oweGets(first, from, n)
				nulls++
				continue
			}
			nulls = c.oweNulls(nulls)
			op := &ops[n-done]
			op.Kind, op.Counter, op.Column, op.Mid = counter.OpGet, k.Counter, int16(k.Col), k.Mid
			n++
		}
		c.Batch.Truncate(first + n)
		if keys = keys[len(part):]; len(keys) > 0 {
			c.Breathe(breath - 1)
		}
	}
	c.oweGets(first, from, n)
	c.oweNulls(nulls)
	c.Batch.ChangeSet(first)
	c.Owed[head].count = int32(len(c.Owed) - head)
}

// oweGets owes the replies of GETs from number from on, below to, behind number first of the batch. It returns to.
func (c *Call) oweGets(first, from, to int) int {
	if from < to {
		c.Owed = append(c.Owed, Owed{reply: replyGets, op: int32(first + from), n: int32(to - from), count: series})
	}
	return to
}

// oweNulls owes so many nulls. It returns 0.
func (c *Call) oweNulls(n int) int {
	if n > 0 {
		c.owe(replyNulls, 0, n)
	}
	return 0
}

// Strlen is STRLEN key.
func Strlen(c *Call, args [][]byte) {
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

func replyStrlen(c *Call, o *Owed) {
	op := c.Batch.Op(int(o.op))
	switch {
	case c.refused(op):
	case !op.Found:
		c.Out.Int(0)
	case o.n == 1:
		c.Out.Error(ErrWrongType)
	default:
		var digits [20]byte
		c.Out.Int(int64(len(strconv.AppendUint(digits[:0], op.Value, 10))))
	}
}

// add is INCR, DECR, INCRBY and DECRBY.
func add(c *Call, key []byte, n int64) {
	k, ok := c.key(key)
	switch {
	case !ok:
		c.oweError(errNoKey(c.Batch.Schema(), key, false))
	case whole(k):
		c.oweError(ErrWrongType)
	default:
		c.owe(replyAdd, c.op(counter.OpAdd, k, uint64(n)), 1)
	}
}

// Incr is INCR key.
func Incr(c *Call, args [][]byte) { add(c, args[1], 1) }

// Decr is DECR key.
func Decr(c *Call, args [][]byte) { add(c, args[1], -1) }

// IncrEach is Incr of each of several keys.
func IncrEach(c *Call, keys [][]byte) {
	c.each(keys, counter.OpAdd, 1, replyAdds, func(key []byte) { add(c, key, 1) })
}

// DecrEach is Decr of each of several keys.
func DecrEach(c *Call, keys [][]byte) {
	c.each(keys, counter.OpAdd, -1, replyAdds, func(key []byte) { add(c, key, -1) })
}

// IncrBy is INCRBY key increment.
func IncrBy(c *Call, args [][]byte) {
	n, ok := resp.Number(args[2])
	if !ok {
		c.oweError(ErrNotInteger)
		return
	}
	add(c, args[1], n)
}

// DecrBy is DECRBY key decrement.
func DecrBy(c *Call, args [][]byte) {
	n, ok := resp.Number(args[2])
	switch {
	case !ok:
		c.oweError(ErrNotInteger)
	case n == -1<<63:
		c.oweError("ERR decrement would overflow")
	default:
		add(c, args[1], -n)
	}
}

// Set: SET key value [NX | XX] [GET] [KEEPTTL]. Options that a counter lacks are refused, not ignored.
func Set(c *Call, args [][]byte) {
	cond, get := counter.Always, false
	for i := 3; i < len(args); i++ {
		switch {
		case resp.EqualFold(args[i], "NX") && cond != counter.IfPresent:
			cond = counter.IfAbsent
		case resp.EqualFold(args[i], "XX") && cond != counter.IfAbsent:
			cond = counter.IfPresent
		case resp.EqualFold(args[i], "GET"):
			get = true
		case resp.EqualFold(args[i], "KEEPTTL"): // there is none to lose
		case (resp.EqualFold(args[i], "EX") || resp.EqualFold(args[i], "PX") || resp.EqualFold(args[i], "EXAT") || resp.EqualFold(args[i], "PXAT")) && i+1 < len(args):
			c.oweError("ERR counters do not expire: SET takes NX, XX, GET and KEEPTTL here")
			return
		default:
			c.oweError(ErrSyntax)
			return
		}
	}
	if !get && c.storeWhole(args[1], cond, replyNull) {
		return
	}
	i := c.set(args[1], args[2], cond)
	switch {
	case i < 0:
	case get:
		c.Batch.Op(i).Before = true
		c.owe(replyGet, i, 0)
	default:
		c.owe(replySet, i, 1)
	}
}

// storeWhole answers a conditional write of a number to a key that names a whole item: unmet where the condition is not
// met, whatever the key holds, else WRONGTYPE. It is false for all other writes.
func (c *Call) storeWhole(key []byte, cond counter.Cond, unmet func(*Call, *Owed)) bool {
	k, ok := c.key(key)
	if cond == counter.Always || !ok || !whole(k) {
		return false
	}
	c.owe(func(c *Call, o *Owed) {
		op := c.result(o)
		switch {
		case op == nil:
		case op.Found == (cond == counter.IfPresent):
			c.Out.Error(ErrWrongType)
		default:
			unmet(c, o)
		}
	}, c.op(counter.OpExists, k, 0), 0)
	return true
}

// set adds an OpSet, or owes the reason why not and returns -1.
func (c *Call) set(key, val []byte, cond counter.Cond) int {
	k, ok := c.key(key)
	switch {
	case !ok:
		c.oweError(errNoKey(c.Batch.Schema(), key, false))
		return -1
	case whole(k):
		c.oweError(ErrWrongType)
		return -1
	}
	v, ok := value(val)
	if !ok {
		c.oweError(ErrNotInteger)
		return -1
	}
	i := c.op(counter.OpSet, k, v)
	c.Batch.Op(i).Cond = cond
	return i
}

// replySet answers OK, null where NX or XX was not met, or the error.
func replySet(c *Call, o *Owed) {
	op := c.Batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case !op.Done:
		replyNull(c, o)
	default:
		c.Out.Status("OK")
	}
}

// SetNX is SETNX key value.
func SetNX(c *Call, args [][]byte) {
	if c.storeWhole(args[1], counter.IfAbsent, replyZero) {
		return
	}
	if i := c.set(args[1], args[2], counter.IfAbsent); i >= 0 {
		c.owe(replySetNX, i, 1)
	}
}

func replySetNX(c *Call, o *Owed) {
	op := c.Batch.Op(int(o.op))
	switch {
	case op.Err != nil:
		c.opError(op)
	case op.Done:
		c.Out.Int(1)
	default:
		c.Out.Int(0)
	}
}

// GetSet is GETSET key value.
func GetSet(c *Call, args [][]byte) {
	if i := c.set(args[1], args[2], counter.Always); i >= 0 {
		c.Batch.Op(i).Before = true
		c.owe(replyGet, i, 1)
	}
}

// GetDel reads and resets a column, or reads and removes an item whose key is the number itself.
func GetDel(c *Call, args [][]byte) {
	k, ok := c.key(args[1])
	switch {
	case !ok:
		c.owe(replyNull, 0, 0)
	case whole(k):
		c.owe(replyWrongType, c.op(counter.OpExists, k, 0), 0)
	case removes(k):
		i := c.op(counter.OpGet, k, 0)
		c.op(counter.OpDelete, k, 0)
		c.Batch.ChangeSet(i)
		c.owe(func(c *Call, o *Owed) {
			if removed := c.Batch.Op(int(o.op) + 1); removed.Err != nil {
				c.opError(removed)
				return
			}
			replyGet(c, o)
		}, i, 0)
	default:
		c.owe(replyGet, c.op(counter.OpReset, k, 0), 0)
	}
}

// MSet makes all changes or none: keys and values are checked here, the rest by the group.
func MSet(c *Call, args [][]byte) {
	if len(args)%2 == 0 {
		c.oweError("ERR wrong number of arguments for 'mset' command (usage: MSET key value [key value ...] [IDMP producer seq [EPOCH epoch]])")
		return
	}
	first := c.Batch.Len()
	for i := 1; i < len(args); i += 2 {
		c.Breathe(i)
		op := c.set(args[i], args[i+1], counter.Always)
		if op >= 0 {
			o := c.Batch.Op(op)
			if o.Arg > o.Counter.Col(int(o.Column)).Limit() {
				c.oweError(ErrNotInteger)
				op = -1
			}
		}
		if op < 0 {
			c.Batch.Truncate(first)
			return
		}
	}
	c.Batch.ChangeSet(first)
	c.owe(replyOK, first, c.Batch.Len()-first)
}
