package feed

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/schema"
)

// Latest merges changes to the last values of each post. It is for consumers that keep the present values alone, as caches and
// search indexes do. It takes memory for each post, not for each change.
//
// Each merged change is of the posts that one change changed last: their set columns with the last values, behind a del if the post
// was deleted meanwhile. They come in the order of these changes, so a consumer may go on from the position of each.
type Latest struct {
	list  []merged
	index map[postKey]int // in list
}

type postKey struct {
	counter uint32
	mid     uint64
}

// merged is the end of all changes of one post.
type merged struct {
	deleted  bool // and then perhaps made again
	there    bool
	position Position
	timeMS   int64
	counter  *schema.Counter
	mid      uint64
	values   []Value
}

// Len is the number of merged changes.
func (l *Latest) Len() int { return len(l.list) }

// Takes tells whether a change can be merged: one with a part that is of no single post stands alone.
func (l *Latest) Takes(c *Change) bool { return !c.Marks() }

// Add merges a change. REQUIRES Takes.
func (l *Latest) Add(c *Change) {
	if l.index == nil {
		l.index = make(map[postKey]int)
	}
	for i := range c.Parts {
		l.merge(c, &c.Parts[i])
	}
}

func (l *Latest) merge(c *Change, p *Part) {
	key := postKey{p.Counter.ID, p.Mid}
	at, known := l.index[key]
	if !known {
		at = len(l.list)
		l.index[key] = at
		l.list = append(l.list, merged{counter: p.Counter, mid: p.Mid})
	}
	m := &l.list[at]
	m.position, m.timeMS = c.Position, c.TimeMS
	if m.counter != p.Counter {
		m.rename(p.Counter)
	}
	if p.Kind == Del {
		m.deleted, m.there, m.values = true, false, m.values[:0]
		return
	}
	m.there = true
	for _, v := range p.Values {
		m.set(v)
	}
}

// rename makes the values those of the same counter in another schema.
func (m *merged) rename(next *schema.Counter) {
	kept := m.values[:0]
	for _, v := range m.values {
		if i := next.Index(m.counter.Columns[v.Column].ID); i >= 0 {
			kept = append(kept, Value{i, v.Value})
		}
	}
	m.counter, m.values = next, kept
}

func (m *merged) set(v Value) {
	for i := range m.values {
		if m.values[i].Column == v.Column {
			m.values[i].Value = v.Value
			return
		}
	}
	m.values = append(m.values, v)
}

// Each calls fn with each merged change, in order. The change is valid until fn returns.
func (l *Latest) Each(fn func(c *Change)) {
	slices.SortStableFunc(l.list, func(a, b merged) int { return cmp.Compare(a.position.Offset(), b.position.Offset()) })
	clear(l.index) // it has other places now
	for i := range l.list {
		l.index[postKey{l.list[i].counter.ID, l.list[i].mid}] = i
	}
	var parts []Part
	for i := range l.list {
		m := &l.list[i]
		if m.deleted {
			parts = append(parts, Part{Kind: Del, Counter: m.counter, Mid: m.mid})
		}
		if m.there {
			parts = append(parts, Part{Kind: Set, Counter: m.counter, Mid: m.mid, Values: m.values})
		}
		if i+1 < len(l.list) && l.list[i+1].position == m.position { // the consumer may stop behind this change
			continue
		}
		fn(&Change{Position: m.position, TimeMS: m.timeMS, Parts: parts})
		parts = parts[:0]
	}
}
