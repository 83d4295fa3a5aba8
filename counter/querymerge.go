package counter

import (
	"time"
)

// merging is a search in a store made of groups of hash slots, in the order of mids: one search of each group, whose rows
// are merged. Each is some rows ahead of what is given:
//
//	group   0     1     2    ...  255
//	rows    7     3     12        (none)     given: 3, 7; then group 1 is asked for more before 12 can be given
//	        19          15
type merging struct {
	heap    []*groupRows // those with a row, or an error, to come next: the first of them at [0]
	waiting []*groupRows // those that are to be asked for more
}

// groupRows is the search of a group and the rows of its last step that were not given yet.
type groupRows struct {
	search
	next int
	err  error // behind those
}

// groupStepRows is how many rows a group is asked for at a time, unless fewer are wanted: 256 of them take 16 MB with
// three columns. Fewer would have a hot block looked over more often.
const groupStepRows = 1024

// leave lets all groups go.
func (m *merging) leave() *merging {
	if m != nil {
		for _, list := range [][]*groupRows{m.heap, m.waiting} {
			for _, g := range list {
				g.search.leave()
			}
		}
	}
	return nil
}

// key is the mid that g gives next, or stands at with an error.
func (g *groupRows) key() uint64 {
	if g.next < g.rows.Len() {
		mid, _ := g.rows.At(g.next)
		return mid
	}
	return g.at
}

// fork begins the searches of all groups, where s is.
func (s *search) fork(b *Batch) {
	s.merged = &merging{}
	from, to := s.at, s.q.To
	if s.q.Desc {
		from, to = s.q.From, s.at
	}
	for group, ks := range s.space {
		if b.s.hidden(ks) || ks.vacant(b) {
			continue
		}
		g := &groupRows{search: search{q: s.q, spans: s.spans, not: s.not, columns: s.columns, most: s.most, pause: s.pause, group: uint8(group), single: true}}
		g.rows.width, g.front.width, g.page.width = s.rows.width, s.rows.width, s.rows.width
		g.restart(from, to)
		s.merged.waiting = append(s.merged.waiting, g)
	}
}

// stepMerged is step of a search that is merged.
func (s *search) stepMerged(b *Batch, limit int, exact bool) error {
	if s.over {
		return nil
	}
	if s.merged == nil {
		s.fork(b)
	}
	m := s.merged
	began := time.Now()
	for n := 0; !s.over && s.rows.Len() < min(limit, s.most); n++ {
		if k := len(m.waiting); k > 0 {
			g, want := m.waiting[k-1], groupStepRows
			if exact {
				want = min(want, limit-s.rows.Len())
			}
			g.next = 0
			g.err = g.step(b, want, true)
			if g.rows.Len() > 0 || g.err != nil || g.over {
				m.waiting = m.waiting[:k-1]
			}
			if g.rows.Len() > 0 || g.err != nil {
				m.push(g, s.q.Desc)
			}
		} else if !s.mergeOne() {
			if err := m.heap[0].err; s.rows.Len() == 0 {
				s.leave() // it begins here again
				return err
			}
			return nil // those first: the next step comes here again
		} else if n&63 != 63 {
			continue
		}
		if time.Since(began) > stepTime {
			return nil
		}
	}
	if s.over {
		s.leave()
	}
	return nil
}

// mergeOne gives the next row, or ends the search where there is none. It is false where the next is an error.
func (s *search) mergeOne() bool {
	m := s.merged
	if len(m.heap) == 0 {
		s.over = true
		return true
	}
	g := m.heap[0]
	if g.next == g.rows.Len() {
		return false
	}
	w := s.rows.width
	s.rows.flat = append(s.rows.flat, g.rows.flat[g.next*w:(g.next+1)*w]...)
	s.pass(g.key())
	if g.next++; g.next < g.rows.Len() || g.err != nil {
		m.down(s.q.Desc)
		return true
	}
	last := len(m.heap) - 1
	m.heap[0], m.heap = m.heap[last], m.heap[:last]
	m.down(s.q.Desc)
	if !g.over {
		m.waiting = append(m.waiting, g)
	}
	return true
}

// before tells whether x comes before y.
func before(x, y *groupRows, desc bool) bool {
	if desc {
		return x.key() > y.key()
	}
	return x.key() < y.key()
}

// push puts g in the heap.
func (m *merging) push(g *groupRows, desc bool) {
	m.heap = append(m.heap, g)
	for i := len(m.heap) - 1; i > 0 && before(m.heap[i], m.heap[(i-1)/2], desc); i = (i - 1) / 2 {
		m.heap[i], m.heap[(i-1)/2] = m.heap[(i-1)/2], m.heap[i]
	}
}

// down puts the first of the heap, which has changed, in its place.
func (m *merging) down(desc bool) {
	for i := 0; 2*i+1 < len(m.heap); {
		c := 2*i + 1
		if c+1 < len(m.heap) && before(m.heap[c+1], m.heap[c], desc) {
			c++
		}
		if !before(m.heap[c], m.heap[i], desc) {
			return
		}
		m.heap[i], m.heap[c] = m.heap[c], m.heap[i]
		i = c
	}
}
