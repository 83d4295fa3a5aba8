package acl

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/schema"
)

// keys is what one selector allows of the data that a schema describes: the doc of the package says how.
type keys struct {
	s   *selector
	sch *schema.Schema
}

var _ command.Rights = keys{}

// Key matches the key as it was sent, and then by its full name.
func (k keys) Key(key []byte, need command.Need) bool {
	return k.s.key(key, need) || k.named(key, need)
}

// named matches the key by its full name.
func (k keys) named(key []byte, need command.Need) bool {
	parsed, ok := k.sch.ParseKey(key)
	if !ok {
		return false
	}
	for i := range k.s.patterns {
		if p := &k.s.patterns[i]; p.need&need == need && p.counter == parsed.Counter.Name {
			return true
		}
	}
	var room [nameRoom]byte
	return k.s.key(appendName(room[:0], parsed.Counter, parsed.Col, parsed.Mid), need)
}

// nameRoom is enough for every full name: two names of 64 bytes and 19 digits.
const nameRoom = 2*schema.MaxName + 24

// appendName appends a full name, which begins with the counter's.
func appendName(dst []byte, c *schema.Counter, col int, mid uint64) []byte {
	dst = append(append(dst, c.Name...), ':')
	dst = strconv.AppendUint(dst, mid, 10)
	if col != schema.WholeItem && c.Columns[col].Suffix != "" {
		dst = append(append(dst, '.'), c.Columns[col].Suffix...)
	}
	return dst
}

// Post matches full names only.
func (k keys) Post(counter, mid []byte, columns [][]byte, need command.Need) bool {
	def := k.sch.CounterNamed(counter)
	m, ok := schema.ParseMid(mid)
	if def == nil || !ok {
		return k.Counter(counter, need)
	}
	var room [nameRoom]byte
	if k.s.key(appendName(room[:0], def, schema.WholeItem, m), need) {
		return true
	}
	for _, name := range columns {
		col, ok := def.Field(name)
		if !ok || !k.s.key(appendName(room[:0], def, col, m), need) {
			return false
		}
	}
	return len(columns) > 0
}

// Counter wants one pattern that matches whatever begins with the counter's name and a colon.
func (k keys) Counter(name []byte, need command.Need) bool {
	if k.s.allKeys {
		return true
	}
	if len(name) > schema.MaxName {
		return false
	}
	var room [nameRoom]byte
	return k.Prefix(append(append(room[:0], name...), ':'), need)
}

func (k keys) Everything(need command.Need) bool {
	if k.s.allKeys || k.Prefix(nil, need) {
		return true
	}
	counters := k.sch.Counters()
	for _, c := range counters {
		if !k.Counter([]byte(c.Name), need) {
			return false
		}
	}
	return len(counters) > 0 // with none there are keys all the same: clients probe with some of their own
}

func (k keys) Prefix(prefix []byte, need command.Need) bool {
	if k.s.allKeys {
		return true
	}
	for i := range k.s.patterns {
		if p := &k.s.patterns[i]; p.need&need == need && p.covers(prefix) {
			return true
		}
	}
	return false
}
