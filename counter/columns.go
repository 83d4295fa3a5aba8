package counter

import (
	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/schema"
)

// columns are those of a counter as the schema says now, and what they are in blocks that were made when it said
// something else. Guarded by Store.gate.
//
// A block keeps the columns it was made with. One that it lacks answers its default there, one that was dropped is
// passed over.
type columns struct {
	def    *schema.Counter
	layout *schema.Layout // of hot blocks made from now on
	over   *schema.Layout // of overlays made from now on: a column of row states before the others
}

// define puts a definition of the counter in force. REQUIRES Store.gate held exclusively.
func (cs *columns) define(def *schema.Counter) error {
	if cs.layout != nil && cs.layout.Equal(def.Layout) {
		cs.def = def
		return nil
	}
	over, err := overlayLayout(def)
	if err != nil {
		return err
	}
	cs.def, cs.layout, cs.over = def, def.Layout, over
	return nil
}

// field returns the index of column c of the counter in the layout of b's table, or -1 where that was made before the
// column was.
func (cs *columns) field(b *block, c int) int {
	switch b.shape {
	case cs.layout:
		return c
	case cs.over:
		return c + 1
	default:
		return b.tab.Layout().Index(cs.def.Columns[c].ID)
	}
}

// recognize remembers that b's table has the counter's columns, if it does, so that field need not look them up.
// REQUIRES b.mu held, or b not found by anybody yet.
func (cs *columns) recognize(b *block) {
	want := cs.layout
	if b.cold != nil {
		want = cs.over
	}
	if b.span.Data != nil && b.shape != want && b.tab.Layout().SameColumns(want) {
		b.shape = want
	}
}

// current tells whether b has the columns that the schema says now.
func (cs *columns) current(b *block) bool {
	return b.span.Data == nil || b.shape == cs.layout || b.shape == cs.over
}

// sameAs tells whether a file's rows are the schema's, column by column.
func (cs *columns) sameAs(meta *coldstore.Meta) bool {
	if len(meta.Columns) != len(cs.def.Columns) {
		return false
	}
	for i := range meta.Columns {
		if meta.Columns[i].ID != cs.def.Columns[i].ID {
			return false
		}
	}
	return true
}

// appendFileRow appends the columns of a file's row in schema order.
func (cs *columns) appendFileRow(dst []uint64, meta *coldstore.Meta, vals []uint64) []uint64 {
	for i := range cs.def.Columns {
		col := &cs.def.Columns[i]
		v := col.Default
		if i < len(meta.Columns) && meta.Columns[i].ID == col.ID { // nearly always
			v = vals[i]
		} else if pos, ok := meta.Column(col.ID); ok {
			v = vals[pos]
		}
		dst = append(dst, v)
	}
	return dst
}

// fileColumns are the columns as a new file has them.
func (cs *columns) fileColumns() []coldstore.Column {
	cols := make([]coldstore.Column, len(cs.def.Columns))
	for i := range cs.def.Columns {
		c := &cs.def.Columns[i]
		cols[i] = coldstore.Column{ID: c.ID, Max: c.Max, Default: c.Default}
	}
	return cols
}
