package items

import (
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// Errors of INCREX, in Redis's words where it has them.
const (
	errExpire    = "ERR counters do not expire: INCREX takes BYINT, LBOUND, UBOUND, SATURATE and PERSIST here"
	errFloat     = "ERR counters are whole numbers: INCREX takes BYINT here"
	errBounds    = "ERR LBOUND can't be greater than UBOUND"
	errENXExpire = "ERR ENX flag requires an expiration"
)

// IncrEx: INCREX key [BYINT increment] [LBOUND n] [UBOUND n] [SATURATE] [PERSIST], of Redis 8.8: it answers the new value
// and the increment. Out of bounds nothing is, or with SATURATE what leads to the bound. Options that a counter lacks are
// refused, not ignored; PERSIST is, as there is nothing that could expire.
func IncrEx(c *Call, args [][]byte) {
	n, bounds := int64(1), counter.Unbounded
	var by, lo, hi, persist bool
	for i := 2; i < len(args); i++ {
		number := func(into *int64, seen *bool) bool {
			if *seen || i+1 == len(args) {
				c.oweError(ErrSyntax)
				return false
			}
			*seen = true
			i++
			var ok bool
			if *into, ok = resp.Number(args[i]); !ok {
				c.oweError(ErrNotInteger)
			}
			return ok
		}
		ok := true
		switch a := args[i]; {
		case resp.EqualFold(a, "BYINT"):
			ok = number(&n, &by)
		case resp.EqualFold(a, "LBOUND"):
			ok = number(&bounds.Lo, &lo)
		case resp.EqualFold(a, "UBOUND"):
			ok = number(&bounds.Hi, &hi)
		case resp.EqualFold(a, "SATURATE") && !bounds.Saturate:
			bounds.Saturate = true
		case resp.EqualFold(a, "PERSIST") && !persist:
			persist = true
		case resp.EqualFold(a, "BYFLOAT"):
			c.oweError(errFloat)
			return
		case resp.EqualFold(a, "EX"), resp.EqualFold(a, "PX"), resp.EqualFold(a, "EXAT"), resp.EqualFold(a, "PXAT"):
			c.oweError(errExpire)
			return
		case resp.EqualFold(a, "ENX"):
			c.oweError(errENXExpire)
			return
		default:
			c.oweError(ErrSyntax)
			return
		}
		if !ok {
			return
		}
	}
	if bounds.Lo > bounds.Hi {
		c.oweError(errBounds)
		return
	}
	k, ok := c.key(args[1])
	switch {
	case !ok:
		c.oweError(errNoKey(c.Batch.Schema(), args[1], false))
	case whole(k):
		c.oweError(ErrWrongType)
	default:
		i := c.Batch.AddWithin(counter.Op{Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid, Arg: uint64(n)}, bounds)
		c.owe(replyAddWithin, i, 1)
	}
}

func replyAddWithin(c *Call, o *Owed) {
	op := c.result(o)
	if op == nil {
		return
	}
	c.Out.Array(2)
	c.Out.Int(int64(op.Value))
	c.Out.Int(c.Batch.Applied(op))
}
