package block

import (
	"errors"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/schema"
)

// Columns are the columns of a counter as the schema defines them now. Blocks that were made under an earlier schema may
// have others. Guarded by Store.gate.
//
// A block keeps the columns it was made with. A column that the block lacks answers its default there, and a dropped column
// is passed over.
type Columns struct {
	Def  *schema.Counter
	Tops *toplist.Lists // top lists of columns; nil: none has one
	// Watched: a change of a post concerns more than the post: a top list, or a derived column.
	Watched bool
	// Noted: Watched, or the log has old values of the posts. An INCR asks this alone.
	Noted  bool
	Layout *schema.Layout // of hot blocks made from now on
	Over   *schema.Layout // of overlays made from now on: a column of row states before the others
	Rest   func()         // see hot.RestBuckets: of a private copy, whose user plans beside clients; nil: planning does not rest
}

// Define puts a definition of the counter in force. REQUIRES Store.gate held exclusively.
func (cs *Columns) Define(def *schema.Counter) error {
	if cs.Layout == nil || !cs.Layout.Equal(def.Layout) {
		over, err := OverlayLayout(def)
		if err != nil {
			return err
		}
		cs.Layout, cs.Over = def.Layout, over
	}
	cs.Def, cs.Tops = def, toplist.For(def, cs.Tops)
	cs.Watched = cs.Tops != nil || len(def.Derived) > 0
	cs.Noted = cs.Watched || def.Old
	return nil
}

// Field returns the index of column c of the counter in the layout of b's table, or -1 where that was made before the
// column was.
func (cs *Columns) Field(b *Block, c int) int {
	switch b.Shape {
	case cs.Layout:
		return c
	case cs.Over:
		return c + 1
	default:
		return b.Tab.Layout().Index(cs.Def.Columns[c].ID)
	}
}

// Recognize remembers that b's table has the counter's columns, if it does, so that field need not look them up.
// REQUIRES b.Mu held, or b not found by anybody yet.
func (cs *Columns) Recognize(b *Block) {
	want := cs.Layout
	if b.Cold != nil {
		want = cs.Over
	}
	if b.Span.Data != nil && b.Shape != want && b.Tab.Layout().SameColumns(want) {
		b.Shape = want
	}
}

// Current tells whether b has the columns that the schema says now.
func (cs *Columns) Current(b *Block) bool {
	return b.Span.Data == nil || b.Shape == cs.Layout || b.Shape == cs.Over
}

// sameAs tells whether a file's rows are the schema's, column by column.
func (cs *Columns) sameAs(meta *coldstore.Meta) bool {
	if len(meta.Columns) != len(cs.Def.Columns) {
		return false
	}
	for i := range meta.Columns {
		if meta.Columns[i].ID != cs.Def.Columns[i].ID {
			return false
		}
	}
	return true
}

// appendFileRow appends the columns of a file's row in schema order.
func (cs *Columns) appendFileRow(dst []uint64, meta *coldstore.Meta, vals []uint64) []uint64 {
	for i := range cs.Def.Columns {
		col := &cs.Def.Columns[i]
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

// FileColumns are the columns as a new file has them.
func (cs *Columns) FileColumns() []coldstore.Column {
	cols := make([]coldstore.Column, len(cs.Def.Columns))
	for i := range cs.Def.Columns {
		c := &cs.Def.Columns[i]
		cols[i] = coldstore.Column{ID: c.ID, Max: c.Max, Default: c.Default}
	}
	return cols
}

// ErrNoKey: a name is that of no counter or column of the schema.
var ErrNoKey = errors.New("counter: no such counter or column")
