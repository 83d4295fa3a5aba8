package acl

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/schema"
)

// keys is the part of the data of a schema that one selector allows: the doc of the package says how.
type keys struct {
	s   *selector
	sch *schema.Schema
}

var _ command.Rights = keys{}

// Key matches the names of the column or post that the key means. A key that means nothing has no other name than
// itself.
func (k keys) Key(key []byte, need command.Need) bool {
	if k.s.allKeys {
		return true
	}
	parsed, ok := k.sch.ParseKey(key)
	if !ok {
		return k.s.key(key, need)
	}
	return k.named(parsed.Counter, parsed.Col, parsed.Mid, need)
}

// named tells whether a pattern matches one of the names of a number, or of the post that it is part of. A whole post is
// column schema.WholeItem. How a key was written plays no part, so that no spelling is a way around a pattern.
func (k keys) named(c *schema.Counter, col int, mid uint64, need command.Need) bool {
	for i := range k.s.patterns {
		if p := &k.s.patterns[i]; p.need&need == need && p.counter == c.Name {
			return true
		}
	}
	var room [nameRoom]byte
	short := len(c.Name) + 1 // where the name without the counter begins
	name := strconv.AppendUint(append(append(room[:0], c.Name...), ':'), mid, 10)
	if k.s.key(name, need) || c == k.sch.Counters()[0] && k.s.key(name[short:], need) {
		return true
	}
	if col == schema.WholeItem || c.Col(col).Suffix == "" {
		return false
	}
	name = append(append(name, '.'), c.Col(col).Suffix...)
	return k.s.key(name, need) || k.s.key(name[short:], need)
}

// nameRoom is enough for every full name: two names of 64 bytes and 19 digits.
const nameRoom = 2*schema.MaxName + 24

// Post matches names as Key does.
func (k keys) Post(counter, mid []byte, columns [][]byte, need command.Need) bool {
	def := k.sch.CounterNamed(counter)
	m, ok := schema.ParseMid(mid)
	if def == nil || !ok {
		return k.Counter(counter, need)
	}
	if k.s.allKeys || k.named(def, schema.WholeItem, m, need) {
		return true
	}
	for _, name := range columns {
		col, ok := def.Field(name)
		if !ok || !k.named(def, col, m, need) {
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
