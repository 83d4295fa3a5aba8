package feed

import (
	"slices"

	"github.com/counterd/counterd/schema"
)

// Latest merges changes to the last values of each post. It is for consumers that keep the present values alone, as caches and
// search indexes do. It takes memory for each post, not for each change.
//
// Each merged change is of the posts that one change changed last: their set columns with the last values, behind a del if the post
// was deleted meanwhile. They come in the order of these changes, so a consumer may go on from the position of each.
//
// Invariant: the places from first to last, along next, are all of list by their last change. prev is the way back.
type Latest struct {
	list        []merged
	index       map[postKey]int // in list
	first, last int             // none if list is empty
	values      []Value         // of new posts
}

type postKey struct{ mid, counter uint64 }

// merged is the end of all changes of one post.
type merged struct {
	position   Position
	timeMS     int64
	counter    *schema.Counter
	mid        uint64
	values     []Value
	prev, next int  // in list; -1: none
	deleted    bool // and then perhaps made again
	there      bool
	old        Old // that of the first change, and columns of later ones
}

// Len is the number of merged changes.
func (l *Latest) Len() int { return len(l.list) }

// Reset forgets all changes, and keeps memory for later ones.
func (l *Latest) Reset() {
	clear(l.list)
	clear(l.index)
	l.list, l.values = l.list[:0], l.values[:0]
}

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
	key := postKey{p.Mid, uint64(p.Counter.ID)}
	at, known := l.index[key]
	if !known {
		at = len(l.list)
		l.index[key] = at
		l.list = append(l.list, merged{counter: p.Counter, mid: p.Mid, values: l.room(len(p.Values)), old: p.Old})
		l.list[at].old.Values = slices.Clone(p.Old.Values)
	}
	l.moveLast(at, known)
	m := &l.list[at]
	m.position, m.timeMS = c.Position, c.TimeMS
	if m.counter != p.Counter {
		m.rename(p.Counter)
	}
	if known && !m.deleted {
		m.before(&p.Old)
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

// room is memory for so many values. A post that gets more takes memory of its own.
func (l *Latest) room(n int) []Value {
	if cap(l.values)-len(l.values) < n {
		l.values = make([]Value, 0, max(2*cap(l.values), n, 64)) // posts keep the old memory
	}
	at := len(l.values)
	l.values = l.values[:at+n]
	return l.values[at : at : at+n]
}

// moveLast makes a place of list the last one in order. linked: it is in the order already.
func (l *Latest) moveLast(at int, linked bool) {
	m := &l.list[at]
	if linked {
		if at == l.last {
			return
		}
		if m.prev < 0 {
			l.first = m.next
		} else {
			l.list[m.prev].next = m.next
		}
		l.list[m.next].prev = m.prev
	}
	if m.prev, m.next = l.last, -1; len(l.list) == 1 {
		m.prev, l.first = -1, at
	} else {
		l.list[l.last].next = at
	}
	l.last = at
}

// rename makes the values those of the same counter in another schema.
func (m *merged) rename(next *schema.Counter) {
	kept := m.values[:0]
	for _, v := range m.values {
		if i := next.Index(m.counter.Columns[v.Column].ID); i >= 0 {
			kept = append(kept, Value{i, v.Value})
		}
	}
	var old []Value
	for _, v := range m.old.Values {
		if i := next.Index(m.counter.Columns[v.Column].ID); i >= 0 {
			old = append(old, Value{i, v.Value})
		}
	}
	m.counter, m.values, m.old.Values = next, kept, old
}

// before adds the values before a later change of the post, of columns that no earlier one has set. The post was not deleted between them.
func (m *merged) before(later *Old) {
	switch {
	case !m.old.Told || !m.old.There:
	case !later.Told:
		m.old = Old{}
	default:
		for _, v := range later.Values {
			if !slices.ContainsFunc(m.old.Values, func(have Value) bool { return have.Column == v.Column }) {
				m.old.Values = append(m.old.Values, v)
			}
		}
	}
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
	var c Change
	for at := l.first; at >= 0 && len(l.list) > 0; {
		m := &l.list[at]
		at = m.next
		if m.deleted {
			c.Parts = append(c.Parts, Part{Kind: Del, Counter: m.counter, Mid: m.mid, Old: m.old})
			m.old = Old{Told: m.old.Told} // a set behind it makes the post
		}
		if m.there {
			c.Parts = append(c.Parts, Part{Kind: Set, Counter: m.counter, Mid: m.mid, Values: m.values, Old: m.old})
		}
		if at >= 0 && l.list[at].position == m.position { // the consumer may stop behind this change
			continue
		}
		c.Position, c.TimeMS = m.position, m.timeMS
		fn(&c)
		c.Parts = c.Parts[:0]
	}
}
