package counter

import (
	"errors"
	"math"
	"time"

	"github.com/counterd/counterd/counter/internal/block"
)

// merging is how a search in the order of mids goes over a store made of groups of hash slots. The posts of any range are
// spread over all groups, so it takes what all groups have of one window of mids, sorts it, and gives it out; then comes
// the next window. A search without order, of all groups one after the other, fills front of the search it belongs to:
//
//	group   0   1   2   3              255
//	mids    |   |   |   |               |    the window, s.Lo..s.Hi: all mids from at on, at first. When front has more
//	        |   |   |   :               :    rows than are wanted of the groups so far, it is sorted and cut, and the
//	        |...:   :   :               :    window, which the other groups are asked for, ends there
//
// So the newest 10 posts take a look at the open blocks of all groups, but only few of their rows are copied and sorted.
type merging struct {
	groups search
	full   bool // front is complete and sorted
	keep   int  // rows that a window is for
}

const (
	// mergedFront bounds what is kept of a window, in words: 64 Ki rows with three columns, 2 MB. Until it is cut it may
	// be two and a half times as much, with as much again for its order. Each window is a look at all open blocks.
	mergedFront = maxFront / 2
	// mergedLeast is how few rows a window is for at least.
	mergedLeast = 64
)

// leave lets the groups go.
func (m *merging) leave() *merging {
	if m != nil {
		m.groups.leave()
	}
	return nil
}

// window begins with the mids from at on, to give about so many rows.
func (s *search) window(keep int) {
	s.merged = &merging{
		groups: search{q: s.q, spans: s.spans, not: s.not, columns: s.columns, most: s.most, pause: s.pause},
		keep:   keep,
	}
	s.lo, s.hi = s.at, s.q.To
	if s.q.Desc {
		s.lo, s.hi = s.q.From, s.at
	}
	g := &s.merged.groups
	g.rows.width, g.front.width, g.page.width = s.rows.width, s.rows.width, s.rows.width
	g.sink = s.gathered
	g.restart(s.lo, s.hi)
}

// gathered takes rows of a group.
func (s *search) gathered(rows *Rows) {
	s.front.flat = append(s.front.flat, rows.flat...)
	s.cutWindow()
}

// cutWindow cuts front, and the window, where there are more rows than it takes. Posts are spread evenly over the groups,
// so a window in which those that were looked at have their share of keep has about keep in all: a quarter more, or there
// would be another one half of the time.
func (s *search) cutWindow() {
	g := &s.merged.groups
	share := (s.merged.keep+s.merged.keep/4)*(int(g.group)+1)/len(s.space) + mergedLeast/4
	if s.front.Len() <= 2*share {
		return
	}
	s.sort()
	s.shorten(share)
	g.q.From, g.q.To = s.lo, s.hi
	if s.q.Desc && g.at < s.lo || !s.q.Desc && g.at > s.hi {
		g.over = true // with this group
	}
}

// fill takes more of the groups to front, until all have been looked at.
func (s *search) fill(b *Batch) error {
	m := s.merged
	g := &m.groups
	err := g.step(b, math.MaxInt, false)
	switch at := g.at; {
	case err == nil:
	case !errors.Is(err, block.ErrCold) || at == s.at:
		return err
	default: // the window ends before what cannot be read: the next one begins there
		if s.q.Desc {
			s.lo = at + 1
		} else {
			s.hi = at - 1
		}
		g.q.From, g.q.To = s.lo, s.hi
		s.within()
		g.over = !g.nextGroup(b)
	}
	if g.over {
		s.within()
		s.sort()
		m.full = true
	}
	return nil
}

// within removes rows of front that are not in the window.
func (s *search) within() {
	w, n := s.front.width, 0
	for i := 0; i < len(s.front.flat); i += w {
		if mid := s.front.flat[i]; mid >= s.lo && mid <= s.hi {
			n += copy(s.front.flat[n:], s.front.flat[i:i+w])
		}
	}
	s.front.flat = s.front.flat[:n]
}

// stepMerged is step of a search that is merged.
func (s *search) stepMerged(b *Batch, limit int, exact bool) error {
	for began := time.Now(); !s.over && s.rows.Len() < min(limit, s.most) && time.Since(began) <= stepTime; {
		if s.merged == nil {
			keep := max(mergedFront/s.front.width, mergedLeast)
			if exact && limit < stepRows {
				keep = min(keep, max(limit-s.rows.Len(), mergedLeast))
			}
			s.window(keep)
		}
		if s.merged.full {
			left := math.MaxInt
			if exact {
				left = limit - s.rows.Len()
			}
			s.giveFront(left)
		} else if err := s.fill(b); err != nil {
			s.leave()
			if s.rows.Len() > 0 { // those first: the next step comes here again
				return nil
			}
			return err
		}
	}
	return nil
}
