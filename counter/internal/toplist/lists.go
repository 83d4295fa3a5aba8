package toplist

import "github.com/counterd/counterd/schema"

// Lists are the top lists of a counter.
type Lists struct {
	Of  []*List // by index of the column; nil: it has none
	Sum *List   // of the sums of a window, whose space the counter is; nil: it is none, or has no list
	All []*List
}

// For returns the lists that a definition of a counter asks for; nil: none. Those of old that it still asks for stay as they are.
func For(def *schema.Counter, old *Lists) (lists *Lists) {
	for i := range def.Columns {
		col := &def.Columns[i]
		if col.Top == 0 {
			continue
		}
		if lists == nil {
			lists = &Lists{Of: make([]*List, len(def.Columns))}
		}
		l := old.find(col)
		if l == nil {
			l = New(col.ID, col.Default, int(col.Top))
		}
		if def.IsWindow() {
			lists.Sum = l
		} else {
			lists.Of[i] = l
		}
		lists.All = append(lists.All, l)
	}
	return lists
}

// find returns the list of a column, or nil.
func (t *Lists) find(col *schema.Column) *List {
	if t == nil {
		return nil
	}
	for _, l := range t.All {
		if l.Column == col.ID && l.Want == int(col.Top) {
			return l
		}
	}
	return nil
}

// Reset resets all lists. nil has none.
func (t *Lists) Reset() {
	if t == nil {
		return
	}
	for _, l := range t.All {
		l.Reset()
	}
}
