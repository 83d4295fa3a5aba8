package mapping

import (
	"bytes"
	"fmt"

	"github.com/counterd/counterd/schema"
)

// Op is the change that an Item makes to its number.
type Op uint8

// The operations. Rules make items that Set; a follower of a server makes others.
const (
	Set    Op = iota // the number becomes Value
	Add              // Value is added; it may be below 0
	Delete           // the number becomes its column's default
)

// Item is one number of one post.
type Item struct {
	Mid    uint64
	Value  int64
	Column uint16 // index in Rules.Columns
	Op     Op
}

// Column is a column that rules write.
type Column struct {
	Counter *schema.Counter
	Index   int // in Counter.Columns
}

// Name is the column's, behind its counter's.
func (c Column) Name() string { return c.Counter.Name + "." + c.Counter.Columns[c.Index].Name }

// Shape is the type of key that a rule is for.
type Shape uint8

// The shapes.
const (
	String Shape = iota
	Hash
	SortedSet
)

// String is the type's name in the reply to TYPE.
func (s Shape) String() string { return [...]string{"string", "hash", "zset"}[s] }

// Rules are the rules of one import. They do not change, and may be used by several goroutines at once.
type Rules struct {
	groups  []*group
	columns []Column
	limits  []uint64 // by column: the largest value
	first   []string // by column: the first rule that writes it
	repeats error
}

// group is the rules of one key pattern.
type group struct {
	key    *pattern
	shape  Shape
	rules  []*rule
	fields [][]byte // of a hash, when all of them are fixed
}

// RulesMax is how many rules there may be at most. Each key is compared with every one whose prefix it has.
const RulesMax = 1024

// Parse reads rules and finds their columns in a schema. The error is a *RuleError, or a *MissingError where all else is
// well.
func Parse(texts []string, s *schema.Schema) (*Rules, error) {
	if len(texts) == 0 || len(texts) > RulesMax {
		return nil, fmt.Errorf("%d rules, want 1 to %d", len(texts), RulesMax)
	}
	c := &compiler{schema: s, rules: &Rules{}}
	for _, text := range texts {
		list, err := c.rule(text)
		for _, r := range list {
			if err == nil {
				err = c.rules.place(r)
			}
		}
		if err != nil {
			return nil, &RuleError{text, err}
		}
	}
	if len(c.missing.Names) > 0 {
		return nil, &c.missing
	}
	for _, g := range c.rules.groups {
		g.findFields()
	}
	return c.rules, nil
}

// column returns the index of a column, which is added where it is new.
func (r *Rules) column(def *schema.Counter, i int) int {
	for n, c := range r.columns {
		if c.Counter == def && c.Index == i {
			return n
		}
	}
	r.columns = append(r.columns, Column{def, i})
	r.limits = append(r.limits, def.Columns[i].Limit())
	r.first = append(r.first, "")
	return len(r.columns) - 1
}

// place puts a rule in its group, unless a key could fit another rule as well.
func (r *Rules) place(new *rule) error {
	var own *group
	for _, g := range r.groups {
		switch {
		case g.key.text == new.key.text && g.shape == new.shape:
			own = g
		case g.key.meets(new.key):
			return fmt.Errorf("a key may fit rule %q too", g.rules[0].text)
		}
	}
	if own == nil {
		own = &group{key: new.key, shape: new.shape}
		r.groups = append(r.groups, own)
	}
	for _, other := range own.rules {
		if new.field == nil || other.field.meets(new.field) {
			what := "key"
			if new.field != nil {
				what = "field"
			}
			return fmt.Errorf("a %s may fit rule %q too", what, other.text)
		}
	}
	own.rules = append(own.rules, new)
	for _, c := range columnsOf(new.values) {
		if c < 0 {
			continue
		}
		if r.first[c] != "" && r.repeats == nil {
			r.repeats = fmt.Errorf("rules %q and %q write the same column, %s", r.first[c], new.text, r.columns[c].Name())
		}
		r.first[c] = new.text
	}
	return nil
}

// columnsOf lists the columns that a decoder writes.
func columnsOf(d decoder) (columns []int) {
	switch d := d.(type) {
	case single:
		return []int{d.column}
	case score:
		return []int{d.column}
	case *text:
		return d.columns
	case *packedBits:
		for _, f := range d.fields {
			columns = append(columns, f.column)
		}
		return columns
	case *object:
		return d.columns
	}
	panic("mapping: BUG: a decoder without columns")
}

// findFields makes the list of fields, unless one of them is a pattern.
func (g *group) findFields() {
	for _, r := range g.rules {
		if r.field == nil || !r.field.fixed {
			g.fields = nil
			return
		}
		g.fields = append(g.fields, r.field.prefix)
	}
}

// Columns lists the columns that the rules write. An Item's Column is an index in it.
func (r *Rules) Columns() []Column { return r.columns }

// Repeated is an error where two rules write one column. Which of two values of a post would stay depends on the order
// in which keys come, so only who adds them up should go on.
func (r *Rules) Repeated() error { return r.repeats }

// Prefix returns the bytes that all keys which fit a rule begin with.
func (r *Rules) Prefix() []byte {
	prefix := r.groups[0].key.prefix
	for _, g := range r.groups[1:] {
		n := 0
		for n < min(len(prefix), len(g.key.prefix)) && prefix[n] == g.key.prefix[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return prefix
}

// Shapes returns the types of keys that the rules are for.
func (r *Rules) Shapes() (list []Shape) {
	var has [SortedSet + 1]bool
	for _, g := range r.groups {
		has[g.shape] = true
	}
	for s, ok := range has {
		if ok {
			list = append(list, Shape(s))
		}
	}
	return list
}

// Match is a key that fits a rule.
type Match struct {
	rules *Rules
	group *group
	key   []byte
	id    uint64 // the part of the mid in the key
}

// keyMax is the length of the longest key that is looked at.
const keyMax = 4096

// find finds the rule of a key. fits is false where there is none, or where only the id is too large, and then ok is
// true. The Match holds on to key.
func (r *Rules) find(key []byte) (m Match, fits, ok bool) {
	if len(key) > keyMax {
		return Match{}, false, false
	}
	for _, g := range r.groups {
		if id, fits, ok := g.key.match(key); ok {
			return Match{r, g, key, id}, fits, true
		}
	}
	return Match{}, false, false
}

// Find finds the rule of a key. The Match holds on to key.
func (r *Rules) Find(key []byte) (m Match, ok bool) {
	m, fits, _ := r.find(key)
	return m, fits
}

// Key is Find that counts a key without a rule in the tally.
func (r *Rules) Key(key []byte, t *Tally) (m Match, ok bool) {
	m, fits, ok := r.find(key)
	switch {
	case !ok:
		t.Skip(NoRule, key, nil, nil)
	case !fits:
		t.Skip(LargeMid, key, nil, nil)
	}
	return m, fits
}

// Key is the key.
func (m Match) Key() []byte { return m.key }

// Shape is the type that the key must have.
func (m Match) Shape() Shape { return m.group.shape }

// Fields lists the fields of a hash that matter, and is nil where any may. It must not be changed.
func (m Match) Fields() [][]byte { return m.group.fields }

// Wrong counts the key as one of another type than the rule's.
func (m Match) Wrong(typeName string, t *Tally) {
	t.Skip(WrongType, m.key, nil, []byte(typeName))
}

// Vanished counts the key as gone.
func (m Match) Vanished(t *Tally) { t.Skip(Vanished, m.key, nil, nil) }

// Value appends the items of a string's value.
func (m Match) Value(dst []Item, value []byte, t *Tally) []Item {
	return m.group.rules[0].values.decode(dst, m.rules, place{mid: m.id, key: m.key}, value, t)
}

// Pair appends the items of a hash's field, or of a sorted set's member with its score as text.
func (m Match) Pair(dst []Item, field, value []byte, t *Tally) []Item {
	for _, r := range m.group.rules {
		mid, fits, ok := m.mid(r, field)
		switch {
		case !ok:
			continue
		case !fits:
			t.Skip(LargeMid, m.key, field, value)
			return dst
		}
		return r.values.decode(dst, m.rules, place{mid, m.key, field}, value, t)
	}
	t.Skip(NoField, m.key, field, value)
	return dst
}

// mid is the post that key and field name together; ok is whether the field is of that rule, fits whether it is a mid.
func (m Match) mid(r *rule, field []byte) (mid uint64, fits, ok bool) {
	id, fits, ok := r.field.match(field)
	if !ok {
		return 0, false, false
	}
	mid = m.id
	switch {
	case !fits:
	case r.key.id == quotient && r.field.id == remainder:
		n := r.key.divisor
		if fits = id < n && mid <= (schema.MaxMid-id)/n; fits {
			mid = mid*n + id
		}
	case r.key.id == quotient:
		fits, mid = id/r.key.divisor == m.id, id
	case r.field.id == whole:
		mid = id
	}
	return mid, fits, true
}

// Glob returns a pattern of SCAN's MATCH that all keys with the prefix fit, or "" where it would be all keys.
func Glob(prefix []byte) string {
	if len(prefix) == 0 {
		return ""
	}
	var b bytes.Buffer
	for _, c := range prefix {
		if bytes.IndexByte([]byte(`*?[]\^-`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('*')
	return b.String()
}
