package feed

import (
	"slices"

	"github.com/counterd/counterd/schema"
)

// Filter says which parts of changes are wanted. Parts that are of no single post pass always, but for a
// drop of a range, which must have wanted posts. The zero value lets all pass.
type Filter struct {
	Counters []string // names; nil: all
	Columns  []string // names; nil: all. A set of other columns alone is left out
	// Mids from From on and below To; To 0: no bound.
	From, To uint64
	Old      bool // values before the changes, too
}

// mid tells whether a post may pass.
func (f *Filter) mid(mid uint64) bool { return mid >= f.From && (f.To == 0 || mid < f.To) }

// meets tells whether a post of a range may pass.
func (f *Filter) meets(from, to uint64) bool { return to > f.From && (f.To == 0 || from < f.To) }

// view is a counter as the feed shows it.
type view struct {
	schema *schema.Schema // in force when it was made
	id     uint32
	def    *schema.Counter // nil: it is not shown, or it was dropped, or it is the space of a derived column
	hidden []bool          // columns that are not shown; nil: all are
}

// look makes the view of a counter.
func (f *Filter) look(s *schema.Schema, id uint32) view {
	v := view{schema: s, id: id, def: s.CounterByID(id)}
	if v.def == nil || v.def.IsSpace() || f.Counters != nil && !slices.Contains(f.Counters, v.def.Name) {
		v.def = nil
		return v
	}
	if f.Columns == nil {
		return v
	}
	v.hidden = make([]bool, len(v.def.Columns))
	for i := range v.def.Columns {
		v.hidden[i] = !slices.Contains(f.Columns, v.def.Columns[i].Name)
	}
	return v
}
