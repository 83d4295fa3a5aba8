package server

import (
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

const (
	errNotInteger = "ERR value is not an integer or out of range"
	errOverflow   = "ERR increment or decrement would overflow"
	errWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errSyntax     = "ERR syntax error"
)

// errNoKey is the answer to a write to a key that the schema does not know. Reads answer as if it were absent, since clients probe with
// keys of their own. It shows a key that there is, with the words of the one that is not: a
// number's or, for commands on items, an item's.
func errNoKey(s *schema.Schema, key []byte, item bool) string {
	text := "ERR no counter for key '" + printable(key, 128) + "': want MID.suffix, MID, NAME:MID or NAME:MID.suffix"
	if like, ok := s.Suggest(key); ok {
		if item {
			like.Col = schema.WholeItem
		}
		text += ", as in " + string(s.AppendKey(nil, like.Counter, like.Col, like.Mid))
	}
	return text + " (see SCHEMA)"
}

// number parses an integer as Redis does: no sign but '-', no leading zeros, no spaces, within 64 bits.
func number(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	digits := b
	if neg {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || neg) {
		return 0, false
	}
	var v uint64
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return 0, false
		}
		v = v*10 + uint64(ch-'0') // 19 digits fit
	}
	if neg {
		return -int64(v), v <= 1<<63
	}
	return int64(v), v < 1<<63
}

// value parses what a counter can be set to. Its own limit is checked when it is stored.
func value(b []byte) (uint64, bool) {
	v, ok := number(b)
	return uint64(v), ok && v >= 0
}

// key parses a key with the schema of the open batch.
func (c *client) key(b []byte) (schema.Key, bool) { return c.batch.Schema().ParseKey(b) }

// op adds an operation on a key to the batch.
func (c *client) op(kind counter.OpKind, k schema.Key, arg uint64) int {
	op := c.batch.Next()
	op.Kind, op.Counter, op.Column, op.Mid, op.Arg = kind, k.Counter, int16(k.Col), k.Mid, arg
	return c.batch.Len() - 1
}

// whole tells whether k names an item and not one number: hash commands take it, string commands do not.
func whole(k schema.Key) bool { return k.Col < 0 }

// removes tells whether deleting k removes the item: it does for a key without a suffix.
func removes(k schema.Key) bool { return k.Col < 0 || k.Col == k.Counter.Plain }

// Commands on keys of any kind.

func planDel(c *client, args [][]byte) {
	first := c.batch.Len()
	for _, a := range args[1:] {
		k, ok := c.key(a)
		switch {
		case !ok:
		case removes(k):
			c.op(counter.OpDelete, k, 0)
		default:
			c.op(counter.OpReset, k, 0)
		}
	}
	c.batch.Group(first)
	c.owe(replyFoundCount, first, c.batch.Len()-first)
}

func planExists(c *client, args [][]byte) {
	first := c.batch.Len()
	for _, a := range args[1:] {
		if k, ok := c.key(a); ok {
			c.op(counter.OpExists, k, 0)
		}
	}
	c.batch.Group(first)
	c.owe(replyFoundCount, first, c.batch.Len()-first)
}

func planType(c *client, args [][]byte) {
	k, ok := c.key(args[1])
	if !ok {
		c.owed = append(c.owed, owed{reply: replyStatus, text: "none"})
		return
	}
	c.owe(replyType, c.op(counter.OpExists, k, 0), 0)
}

func replyType(c *client, o *owed) {
	op := c.batch.Op(int(o.op))
	switch {
	case c.refused(op):
	case !op.Found:
		c.out.Status("none")
	case op.Column < 0:
		c.out.Status("hash")
	default:
		c.out.Status("string")
	}
}

// planTTL answers TTL and PTTL: counters do not expire.
func planTTL(c *client, args [][]byte) {
	k, ok := c.key(args[1])
	if !ok {
		c.oweNumber(-2)
		return
	}
	c.owe(replyTTL, c.op(counter.OpExists, k, 0), 0)
}

func replyTTL(c *client, o *owed) {
	if op := c.batch.Op(int(o.op)); c.refused(op) {
		return
	} else if op.Found {
		c.integer(-1)
	} else {
		c.integer(-2)
	}
}
