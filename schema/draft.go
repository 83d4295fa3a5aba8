package schema

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// draft is a schema while statements are applied to it: a script of thousands of
// lines builds one schema, not thousands. A draft after an error is thrown away.
// Not safe for concurrent use.
type draft struct {
	base        *Schema
	counters    []*Counter
	pending     []pendingKey
	lastCounter uint32
	size        int

	changed  bool
	mine     map[*Counter]bool // copies this draft made and may change
	suffixes map[string]owner  // every suffix in use, but the empty one
}

// owner is who uses a suffix.
type owner struct{ counter, column string }

func (s *Schema) thaw() *draft {
	d := &draft{
		base:        s,
		counters:    slices.Clone(s.counters),
		pending:     slices.Clone(s.pending),
		lastCounter: s.lastCounter,
		size:        s.size,
		mine:        map[*Counter]bool{},
		suffixes:    map[string]owner{},
	}
	for _, c := range s.counters {
		for i := range c.Width() {
			if col := c.Col(i); col.Suffix != "" {
				d.suffixes[col.Suffix] = owner{c.Name, col.Name}
			}
		}
	}
	return d
}

// freeze makes the draft a schema. The draft must not be used afterwards.
func (d *draft) freeze() *Schema {
	if !d.changed {
		return d.base
	}
	s := &Schema{
		counters:    d.counters,
		pending:     d.pending,
		lastCounter: d.lastCounter,
		size:        d.size,
		names:       make(map[string]*Counter, len(d.counters)),
	}
	for _, c := range s.counters {
		if d.mine[c] {
			c.finish()
		}
		s.names[c.Name] = c
		s.all = append(s.all, c)
		for i := range c.Derived {
			s.all = append(s.all, c.Derived[i].Space)
		}
	}
	slices.SortFunc(s.all, func(a, b *Counter) int { return cmp.Compare(a.ID, b.ID) })
	s.suffixes = newSuffixTable(s.counters)
	if len(s.counters) > 0 {
		s.first = s.counters[0]
	}
	return s
}

func (d *draft) apply(st Statement) error {
	if err := st.check(); err != nil {
		return err
	}
	switch st.Op {
	case AddCounter:
		return d.addCounter(st)
	case AddColumn:
		if st.PrimaryKey {
			return d.addKey(st.Counter, st.Column)
		}
		return d.addColumn(st)
	case DropColumn:
		return d.dropColumn(st.Counter, st.Column)
	case AlterCounter:
		return d.alterCounter(st)
	case AlterColumn:
		return d.alterColumn(st)
	default: // DropCounter: check knows no other
		return d.dropCounter(st.Counter)
	}
}

func (d *draft) addCounter(st Statement) error {
	name := st.Counter
	if i := d.counter(name); i >= 0 {
		return sameAttributes(d.counters[i], st)
	}
	c := &Counter{Name: name, Key: DefaultKey, Plain: -1, IDs: st.IDs, Retain: st.Retain, Old: st.Old}
	if err := checkAges(c); err != nil {
		return err
	}
	p := d.pendingFor(name)
	if p >= 0 { // its line moves, and stays as long
		c.Key, c.keyDeclared = d.pending[p].key, true
	} else if err := d.roomForCounter(name); err != nil {
		return err
	}
	if d.lastCounter == math.MaxUint32 {
		return fail(ErrLimit, name, "cannot add counter %s: all %d counter ids have been used", name, uint32(math.MaxUint32))
	}
	if err := d.grow(counterStatement(c)); err != nil {
		return err
	}
	if p >= 0 {
		d.pending = slices.Delete(d.pending, p, p+1)
	}
	d.lastCounter++
	c.ID = d.lastCounter
	d.counters = append(d.counters, c)
	d.mine[c] = true
	return nil
}

func (d *draft) addKey(counter, key string) error {
	line := keyStatement(counter, key)
	i := d.counter(counter)
	if i < 0 {
		if p := d.pendingFor(counter); p >= 0 {
			return sameKey(counter, d.pending[p].key, key)
		}
		if err := d.roomForCounter(counter); err != nil {
			return err
		}
		if err := d.grow(line); err != nil {
			return err
		}
		d.pending = append(d.pending, pendingKey{counter, key})
		return nil
	}
	c := d.counters[i]
	if c.column(key) >= 0 || c.derived(key) >= 0 {
		return fail(ErrClash, key, "counter %s has a column %s already: the primary key needs a name of its own", counter, key)
	}
	if c.keyDeclared {
		return sameKey(counter, c.Key, key)
	}
	if err := d.grow(line); err != nil {
		return err
	}
	c = d.own(i)
	c.Key, c.keyDeclared = key, true
	return nil
}

// sameKey is nil if a counter whose declared primary key is have may be told
// that it is want.
func sameKey(counter, have, want string) error {
	if have == want {
		return nil
	}
	return &MismatchError{counter, want, []Difference{{"primarykey", have, want}}}
}

func (d *draft) addColumn(st Statement) error {
	i, err := d.mustCounter(st.Counter)
	if err != nil {
		return err
	}
	c := d.counters[i]
	if st.Column == c.Key {
		how := "declared"
		if !c.keyDeclared {
			how = "default"
		}
		return fail(ErrClash, st.Column, "%s is the %s primary key of counter %s: a column needs a name of its own", st.Column, how, st.Counter)
	}
	if k := c.derived(st.Column); k >= 0 {
		return sameDerived(c, &c.Derived[k], st)
	}
	if k := c.column(st.Column); k >= 0 {
		return sameColumn(&c.Columns[k], st)
	}
	if st.Suffix != "" {
		if o, taken := d.suffixes[st.Suffix]; taken {
			return fail(ErrClash, st.Suffix, "suffix %s belongs to column %s of counter %s: give column %s of counter %s a suffix of its own, suffix=NAME",
				st.Suffix, o.column, o.counter, st.Column, st.Counter)
		}
	} else {
		for k := range c.Width() {
			if c.Col(k).Suffix == "" {
				return fail(ErrClash, st.Column, "column %s needs a suffix: column %s of counter %s has the empty one already", st.Column, c.Col(k).Name, st.Counter)
			}
		}
	}
	if c.Width() >= MaxColumns {
		return fail(ErrLimit, st.Column, "cannot add column %s: counter %s has %d columns, the most there may be", st.Column, st.Counter, MaxColumns)
	}
	if c.lastColumn == math.MaxUint16 {
		return fail(ErrLimit, st.Column, "cannot add column %s: all %d column ids of counter %s have been used", st.Column, math.MaxUint16, st.Counter)
	}
	if st.Derives() {
		return d.addDerived(i, st)
	}
	if st.Top > 0 {
		if err := roomForTop(c, st.Column); err != nil {
			return err
		}
	}
	st.SaysTop = st.Top > 0 // as the text of the schema has it
	if err := d.grow(st); err != nil {
		return err
	}
	c = d.own(i)
	c.lastColumn++
	c.Columns = append(c.Columns, Column{
		ID: c.lastColumn, Name: st.Column, Suffix: st.Suffix, Hint: st.Hint, Max: st.Max, Default: st.Default, Top: st.Top,
	})
	if st.Suffix != "" {
		d.suffixes[st.Suffix] = owner{c.Name, st.Column}
	}
	return nil
}

// sameColumn is nil if st says what have is.
func sameColumn(have *Column, st Statement) error {
	var diff []Difference
	note := func(attribute, have, want string) {
		if have != want {
			diff = append(diff, Difference{attribute, have, want})
		}
	}
	if st.Derives() {
		if st.HalfLife != 0 {
			return &MismatchError{st.Counter, st.Column, []Difference{{"decay", "none", decayText(st.HalfLife)}}}
		}
		return &MismatchError{st.Counter, st.Column, []Difference{{"window", "none", st.Window.String()}}}
	}
	note("hint", strconv.Itoa(int(have.Hint)), strconv.Itoa(int(st.Hint)))
	note("max", strconv.Itoa(int(have.Max)), strconv.Itoa(int(st.Max)))
	note("default", strconv.FormatUint(have.Default, 10), strconv.FormatUint(st.Default, 10))
	if !st.SuffixUnsaid || have.Suffix != "" {
		note("suffix", have.Suffix, st.Suffix)
	}
	if st.SaysTop {
		note("top", topText(have.Top), topText(st.Top))
	}
	if diff == nil {
		return nil
	}
	return &MismatchError{st.Counter, st.Column, diff}
}

func (d *draft) dropColumn(counter, name string) error {
	key := ""
	i := d.counter(counter)
	if i >= 0 {
		key = d.counters[i].Key
	} else if p := d.pendingFor(counter); p >= 0 {
		key = d.pending[p].key
	}
	if name == key {
		return fail(ErrClash, name, "%s is the primary key of counter %s and cannot be dropped", name, counter)
	}
	if i < 0 {
		_, err := d.mustCounter(counter)
		return err
	}
	if k := d.counters[i].derived(name); k >= 0 {
		c := d.own(i)
		d.shrink(c.Derived[k].statement(c))
		delete(d.suffixes, c.Derived[k].Suffix)
		c.Derived = slices.Delete(c.Derived, k, k+1)
		return nil
	}
	k := d.counters[i].column(name)
	if k >= 0 {
		for _, of := range d.counters[i].Derived {
			if of.source(d.counters[i].Columns[k].ID) >= 0 {
				return fail(ErrClash, name, "column %s of counter %s cannot be dropped: column %s counts its additions; drop that first", name, counter, of.Name)
			}
		}
	}
	if k < 0 {
		return fail(ErrUnknown, name, "counter %s has no column %s", counter, name)
	}
	c := d.own(i)
	d.forget(c, k)
	c.Columns = slices.Delete(c.Columns, k, k+1)
	return nil
}

func (d *draft) dropCounter(name string) error {
	if p := d.pendingFor(name); p >= 0 {
		d.shrink(keyStatement(name, d.pending[p].key))
		d.pending = slices.Delete(d.pending, p, p+1)
		return nil
	}
	i, err := d.mustCounter(name)
	if err != nil {
		return err
	}
	c := d.counters[i]
	for k := range c.Derived {
		d.shrink(c.Derived[k].statement(c))
		delete(d.suffixes, c.Derived[k].Suffix)
	}
	for k := range c.Columns {
		d.forget(c, k)
	}
	if c.keyDeclared {
		d.shrink(keyStatement(name, c.Key))
	}
	d.shrink(counterStatement(c))
	d.counters = slices.Delete(d.counters, i, i+1)
	return nil
}

// forget takes column k of c out of the books, not out of c.
func (d *draft) forget(c *Counter, k int) {
	d.shrink(columnStatement(c.Name, &c.Columns[k]))
	delete(d.suffixes, c.Columns[k].Suffix)
}

// grow notes that the schema's text gains the line of st, if there is room.
func (d *draft) grow(st Statement) error {
	n := len(st.String()) + 1
	if d.size+n > MaxScript {
		return fail(ErrLimit, st.Counter, "the schema is full: its text has %d bytes, of %d, and %d more are needed", d.size, MaxScript, n)
	}
	d.size += n
	d.changed = true
	return nil
}

// shrink notes that the schema's text loses the line of st.
func (d *draft) shrink(st Statement) {
	d.size -= len(st.String()) + 1
	d.changed = true
}

// own is counter i, as a copy that this draft may change. Its columns are copied
// too, since slices.Delete moves them in place.
func (d *draft) own(i int) *Counter {
	c := d.counters[i]
	if d.mine[c] {
		return c
	}
	n := *c
	n.Columns, n.Derived = slices.Clone(c.Columns), slices.Clone(c.Derived)
	d.counters[i] = &n
	d.mine[&n] = true
	return &n
}

func (d *draft) counter(name string) int {
	return slices.IndexFunc(d.counters, func(c *Counter) bool { return c.Name == name })
}

func (d *draft) pendingFor(counter string) int {
	return slices.IndexFunc(d.pending, func(p pendingKey) bool { return p.counter == counter })
}

func (d *draft) mustCounter(name string) (int, error) {
	i := d.counter(name)
	if i < 0 {
		return i, fail(ErrUnknown, name, "there is no counter %s", name)
	}
	return i, nil
}

func (d *draft) roomForCounter(name string) error {
	if len(d.counters)+len(d.pending) >= MaxCounters {
		return fail(ErrLimit, name, "cannot add counter %s: there are %d counters, the most there may be", name, MaxCounters)
	}
	return nil
}
