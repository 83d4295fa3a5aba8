package schema

import "slices"

// Counter is a named set of columns. It belongs to a schema and is as immutable:
// nobody may change a field, nor the columns.
//
// Invariant: the ids of Columns rise, and none is above lastColumn.
type Counter struct {
	ID      uint32    // rises from 1 in its schema and is never used again
	Name    string    // unique in its schema
	Key     string    // the primary key's name
	Columns []Column  // in the order they were added
	Derived []Derived // the columns that follow from additions to these, in the order they were added
	Plain   int       // index, for Col, of the one with the empty suffix, or -1
	Layout  *Layout   // how a new block packs an item: every column Hint bits wide
	IDs     IDs       // how mids carry time
	Retain  int64     // in seconds: how long posts are kept, by the time in their mids; 0: for ever. Not 0 only with IDs
	Old     bool      // the log has the values before each change, too

	keyDeclared bool             // Key was declared, and is not DefaultKey by default
	lastColumn  uint16           // highest column id ever given
	fields      map[string]uint8 // index, for Col, by name and by suffix; names win
	derivedOf   bool             // it is the space of a derived column
	window      Window           // of that column, if it counts in a window
}

// Field finds a column, for Col, by its name or else by its suffix, as the fields of
// Redis's hash commands are looked up. The primary key is no column, and the
// empty suffix is no field. It allocates nothing.
func (c *Counter) Field(b []byte) (col int, ok bool) {
	i, ok := c.fields[string(b)]
	return int(i), ok
}

// Index is the position in Columns of the column with that id, or -1.
func (c *Counter) Index(id uint16) int { return c.Layout.Index(id) }

// KeyDeclared reports whether a statement declared the primary key. An
// undeclared key may still be declared, once.
func (c *Counter) KeyDeclared() bool { return c.keyDeclared }

// LastColumn is the highest id that a column of the counter ever had.
func (c *Counter) LastColumn() uint16 { return c.lastColumn }

// column is the position in Columns of the column called name, or -1.
func (c *Counter) column(name string) int {
	for i := range c.Columns {
		if c.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// columnByID is the position in Columns of the column with that id, or -1. Unlike Index, it may be asked while Columns change.
func (c *Counter) columnByID(id uint16) int {
	return slices.IndexFunc(c.Columns, func(col Column) bool { return col.ID == id })
}

// finish derives what follows from Columns.
func (c *Counter) finish() {
	c.Plain = -1
	c.fields = make(map[string]uint8, 2*c.Width())
	for i := range c.Width() {
		if suffix := c.Col(i).Suffix; suffix == "" {
			c.Plain = i
		} else {
			c.fields[suffix] = uint8(i)
		}
	}
	for i := range c.Width() {
		c.fields[c.Col(i).Name] = uint8(i)
	}
	l, err := NewLayout(c.Columns)
	if err != nil {
		panic("schema: BUG: a checked counter has no layout: " + err.Error())
	}
	c.Layout = l
	for i := range c.Derived {
		d := &c.Derived[i]
		d.Sources = slices.Clone(d.Sources) // others may read those of the schema before
		for k := range d.Sources {
			d.Sources[k].At = c.Index(d.Sources[k].ID)
		}
	}
}
