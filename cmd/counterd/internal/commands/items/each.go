package items

import "github.com/counterd/counterd/counter"

// A pipeline is mostly commands of one kind, on the same column of many posts. Their operations are added together, and their
// replies are owed together: that takes a third of the instructions of a GET from parsing to reply.

// series is the count of an Owed that stands for n replies, of an operation each. Answer gives those up to the next error, and is
// called again for the others: so an error is always the first of the replies that it has appended.
const series = -1

// each plans an operation on each of the keys. A key that names no column is planned by one.
func (c *Call) each(keys [][]byte, kind counter.OpKind, arg int64, reply func(*Call, *Owed), one func(key []byte)) {
	reader := c.Batch.Schema().Reader()
	for len(keys) > 0 {
		first := c.Batch.Len()
		n := 0
		for ops := c.Batch.Extend(len(keys)); n < len(ops); n++ {
			k, ok := reader.ParseKey(keys[n])
			if !ok || whole(k) {
				break
			}
			op := &ops[n]
			op.Kind, op.Counter, op.Column, op.Mid, op.Arg = kind, k.Counter, int16(k.Col), k.Mid, uint64(arg)
			// Those with the same suffix.
			var mids [seriesPart]uint64
			part := keys[n+1 : min(len(keys), n+1+len(mids))]
			if like := reader.ParseNext(part, mids[:len(part)]); like > 0 {
				next := ops[n+1 : n+1+like]
				for i := range next {
					op := &next[i]
					op.Kind, op.Counter, op.Column, op.Mid, op.Arg = kind, k.Counter, int16(k.Col), mids[i], uint64(arg)
				}
				n += like
			}
		}
		c.Batch.Truncate(first + n)
		if n > 0 {
			c.Owed = append(c.Owed, Owed{reply: reply, op: int32(first), n: int32(n), count: series})
		}
		if n < len(keys) {
			one(keys[n])
			n++
		}
		keys = keys[n:]
	}
}

// seriesPart is how many values a series is answered at a time: a word has a bit for each.
const seriesPart = 64

// replyGets is replyGet of a series. Posts without counters are as frequent as others, so nulls are written together with values.
func replyGets(c *Call, o *Owed) {
	ops := c.Batch.Ops(int(o.op), int(o.n))
	var values [seriesPart]uint64
	for len(ops) > 0 {
		n, absent := 0, uint64(0)
		for i := range ops[:min(len(ops), len(values))] {
			op := &ops[i]
			if op.Err != nil {
				break
			}
			if !op.Found {
				absent |= 1 << (uint(i) & 63)
			}
			values[i&(seriesPart-1)] = op.Value
			n++
		}
		c.Out.BulkUints(values[:n], absent)
		c.breatheBetween(len(ops), len(ops)-n)
		if ops = ops[n:]; len(ops) > 0 && ops[0].Err != nil {
			ops = c.answerError(o, ops)
			break
		}
	}
	o.leave(len(ops))
}

// replyAdds is replyAdd of a series.
func replyAdds(c *Call, o *Owed) {
	ops := c.Batch.Ops(int(o.op), int(o.n))
	var part [seriesPart]uint64
	for len(ops) > 0 {
		values := part[:0]
		for i := range ops[:min(len(ops), len(part))] {
			if ops[i].Err != nil {
				break
			}
			values = append(values, ops[i].Value)
		}
		c.Out.EachInt(values)
		if ops = ops[len(values):]; len(ops) > 0 && ops[0].Err != nil {
			ops = c.answerError(o, ops)
			break
		}
	}
	o.leave(len(ops))
}

// answerError answers the error of the first of ops, the last of series o, if it is the first reply that is given. It returns the
// operations that are left.
func (c *Call) answerError(o *Owed, ops []counter.Op) []counter.Op {
	if len(ops) < int(o.n) {
		return ops
	}
	c.opError(&ops[0])
	return ops[1:]
}

// replyNulls answers n nulls.
func replyNulls(c *Call, o *Owed) {
	for i := range int(o.n) {
		c.Breathe(i)
		c.Out.Null()
	}
}

// leave notes how many replies of a series are left.
func (o *Owed) leave(left int) {
	o.op, o.n = o.op+o.n-int32(left), int32(left)
}
