package items

import (
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Error replies that other commands give too.
const (
	ErrReadOnly   = "READONLY You can't write against a read only replica."
	ErrNotInteger = "ERR value is not an integer or out of range"
	ErrOverflow   = "ERR increment or decrement would overflow"
	ErrWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrSyntax     = "ERR syntax error"
	ErrLoading    = "LOADING counterd is loading the dataset in memory"
	ErrMemoryOnly = "ERR data is kept in memory only (appendonly no)"
)

// errNoKey is the answer to a write to a key that the schema does not know. Reads answer as if it were absent, since
// clients probe with keys of their own. It shows an existing key, made from the words of the wrong one: a number's or,
// for commands on items, an item's.
func errNoKey(s *schema.Schema, key []byte, item bool) string {
	text := "ERR no counter for key '" + resp.Printable(key, 128) + "': want MID.suffix, MID, NAME:MID or NAME:MID.suffix"
	if like, ok := s.Suggest(key); ok {
		if item {
			like.Col = schema.WholeItem
		}
		text += ", as in " + string(s.AppendKey(nil, like.Counter, like.Col, like.Mid))
	}
	return text + " (see SCHEMA)"
}

// value parses what a counter can be set to. Its own limit is checked when it is stored.
func value(b []byte) (uint64, bool) {
	v, ok := resp.Number(b)
	return uint64(v), ok && v >= 0
}

// key parses a key with the schema of the open batch.
func (c *Call) key(b []byte) (schema.Key, bool) { return c.Batch.Schema().ParseKey(b) }

// op adds an operation on a key to the batch.
func (c *Call) op(kind counter.OpKind, k schema.Key, arg uint64) int {
	op := c.Batch.Next()
	op.Kind, op.Counter, op.Column, op.Mid, op.Arg = kind, k.Counter, int16(k.Col), k.Mid, arg
	return c.Batch.Len() - 1
}

// whole tells whether k names an item and not one number: hash commands take it, string commands do not.
func whole(k schema.Key) bool { return k.Col < 0 }

// removes tells whether deleting k removes the item: it does for a key without a suffix.
func removes(k schema.Key) bool { return k.Col < 0 || k.Col == k.Counter.Plain }

// Commands on keys of any kind.

// Del is DEL key [key ...].
func Del(c *Call, args [][]byte) {
	first := c.Batch.Len()
	for i, a := range args[1:] {
		c.Breathe(i)
		k, ok := c.key(a)
		switch {
		case !ok:
		case removes(k):
			c.op(counter.OpDelete, k, 0)
		default:
			c.op(counter.OpReset, k, 0)
		}
	}
	c.Batch.ChangeSet(first)
	c.owe(replyFoundCount, first, c.Batch.Len()-first)
}

// Exists is EXISTS key [key ...].
func Exists(c *Call, args [][]byte) {
	first := c.Batch.Len()
	for i, a := range args[1:] {
		c.Breathe(i)
		if k, ok := c.key(a); ok {
			c.op(counter.OpExists, k, 0)
		}
	}
	c.Batch.ChangeSet(first)
	c.owe(replyFoundCount, first, c.Batch.Len()-first)
}

// Type is TYPE key.
func Type(c *Call, args [][]byte) {
	k, ok := c.key(args[1])
	if !ok {
		c.Owed = append(c.Owed, Owed{reply: replyStatus, text: "none"})
		return
	}
	c.owe(replyType, c.op(counter.OpExists, k, 0), 0)
}

func replyType(c *Call, o *Owed) {
	op := c.Batch.Op(int(o.op))
	switch {
	case c.refused(op):
	case !op.Found:
		c.Out.Status("none")
	case op.Column < 0:
		c.Out.Status("hash")
	default:
		c.Out.Status("string")
	}
}

// TTL answers TTL and PTTL: counters do not expire.
func TTL(c *Call, args [][]byte) {
	k, ok := c.key(args[1])
	if !ok {
		c.oweNumber(-2)
		return
	}
	c.owe(replyTTL, c.op(counter.OpExists, k, 0), 0)
}

func replyTTL(c *Call, o *Owed) {
	if op := c.Batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.Out.Int(-1)
	} else {
		c.Out.Int(-2)
	}
}

// Mid is the mid that a key names, of a number or of an item.
func Mid(s *schema.Schema, key []byte) (uint64, bool) {
	if _, mid, ok := s.ParseItem(key); ok {
		return mid, true
	}
	k, ok := s.ParseKey(key)
	return k.Mid, ok
}
