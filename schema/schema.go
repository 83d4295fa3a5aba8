package schema

import "slices"

// Schema is the set of counters of a server. It never changes, so any number of
// goroutines may use it at once. The zero Schema is the empty one.
//
// Invariant: counters are in rising order of their ids, none above lastCounter; names
// and suffixes follow from counters.
type Schema struct {
	counters    []*Counter
	all         []*Counter   // these, and the spaces of derived columns, in rising order of their ids
	pending     []pendingKey // primary keys declared for counters to come
	lastCounter uint32       // highest counter id ever given
	size        int          // len(String())

	first    *Counter            // counters[0], or nil
	names    map[string]*Counter // by name
	suffixes suffixTable         // without the empty one
}

// LastCounter is the highest id that a counter ever had.
func (s *Schema) LastCounter() uint32 { return s.lastCounter }

// pendingKey is a primary key whose counter has not been added yet.
type pendingKey struct{ counter, key string }

var empty Schema

// Empty is the schema without counters, which has given no id yet.
func Empty() *Schema { return &empty }

// IsEmpty reports whether the schema says nothing: no counter, and no primary key
// declared for one to come. Ids may have been given all the same.
func (s *Schema) IsEmpty() bool { return len(s.counters) == 0 && len(s.pending) == 0 }

// Counters are the counters in the order they were added. The caller must not
// change the slice.
func (s *Schema) Counters() []*Counter { return s.counters }

// Derives tells whether a counter has derived columns.
func (s *Schema) Derives() bool {
	return slices.ContainsFunc(s.counters, func(c *Counter) bool { return len(c.Derived) > 0 })
}

// HasOld tells whether the log has old values of a counter.
func (s *Schema) HasOld() bool {
	return slices.ContainsFunc(s.counters, func(c *Counter) bool { return c.Old })
}

// All are the counters and the spaces of derived columns, in rising order of their ids. The caller must not change the slice.
func (s *Schema) All() []*Counter { return s.all }

// NextCounter is the id that the next counter gets: all before it are or were in use.
func (s *Schema) NextCounter() uint64 { return uint64(s.lastCounter) + 1 }

// Counter is the counter of that name, or nil.
func (s *Schema) Counter(name string) *Counter { return s.names[name] }

// CounterNamed is Counter for a name that is bytes. It allocates nothing.
func (s *Schema) CounterNamed(name []byte) *Counter { return s.names[string(name)] }

// SpaceOf is the derived column whose space has that id, and its counter; nil: there is none.
func (s *Schema) SpaceOf(id uint32) (*Counter, *Derived) {
	for _, c := range s.counters {
		for i := range c.Derived {
			if c.Derived[i].Space.ID == id {
				return c, &c.Derived[i]
			}
		}
	}
	return nil, nil
}

// CounterByID is the counter, or the space of a derived column, of that id, or nil. It takes O(log n) steps.
func (s *Schema) CounterByID(id uint32) *Counter {
	lo, hi := 0, len(s.all)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if s.all[m].ID < id {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(s.all) && s.all[lo].ID == id {
		return s.all[lo]
	}
	return nil
}

// Apply answers the schema after st, or s itself when st changes nothing.
// Counters that st does not touch are shared by both schemas, pointer and all.
func (s *Schema) Apply(st Statement) (*Schema, error) {
	d := s.thaw()
	if err := d.apply(st); err != nil {
		return nil, err
	}
	return d.freeze(), nil
}
