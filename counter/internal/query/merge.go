package query

import (
	"errors"
	"math"
	"time"

	"github.com/counterd/counterd/counter/internal/block"
)

// merging is how a search in the order of mids goes over a store made of groups of hash slots. The posts of any range are
// spread over all groups, so it collects the posts of one window of mids from all groups, sorts them, and gives them out;
// then comes the next window. A search without order, of all groups one after the other, fills front of the search it
// belongs to:
//
//	group   0   1   2   3              255
//	mids    |   |   |   |               |    the window, s.Lo..s.Hi: all mids from at on, at first. When front has more
//	        |   |   |   :               :    rows than are wanted of the groups so far, it is sorted and cut, and the
//	        |...:   :   :               :    window, which the other groups are asked for, ends there
//
// So the oldest 10 posts take a look at the first blocks of all groups, but only few of their rows are copied and sorted. The newest
// few take a look at lists: see newest.go.
type merging struct {
	groups Search
	full   bool // front is complete and sorted
	keep   int  // rows that a window is for
	least  int  // and how many it keeps at least
}

const (
	// MergedFront bounds the memory of a window, in words: 64 Ki rows with three columns, 2 MB. Until it is cut it may be
	// two and a half times as much, with as much again for its order. Each window is a look at all open blocks.
	MergedFront = maxFront / 2
	// mergedLeast is how few rows a window is for at least.
	mergedLeast = 64
)

// leave lets the groups go.
func (m *merging) leave() *merging {
	if m != nil {
		m.groups.Leave()
	}
	return nil
}

// window begins with the mids from at on, to give about so many rows.
func (s *Search) window(keep int) {
	s.merged = &merging{
		groups: Search{Query: s.Query, spans: s.spans, not: s.not, columns: s.columns, Most: s.Most, turns: turns{Pause: s.Pause, GiveWay: s.GiveWay}},
		keep:   keep,
	}
	s.lo, s.hi = s.at, s.Query.To
	if s.Query.Desc {
		s.lo, s.hi = s.Query.From, s.at
	}
	g := &s.merged.groups
	g.Rows.width, g.Front.width, g.page.width = s.Rows.width, s.Rows.width, s.Rows.width
	g.sink = s.gathered
	g.restart(s.lo, s.hi)
}

// gathered takes rows of a group.
func (s *Search) gathered(rows *Rows) {
	s.Front.flat = append(s.Front.flat, rows.flat...)
	s.cutWindow()
}

// cutWindow cuts front, and the window, where there are more rows than it takes. Posts are spread evenly over the groups,
// so a window in which those that were looked at have their share of keep has about keep in all: a quarter more, or there
// would be another one half of the time.
func (s *Search) cutWindow() {
	g := &s.merged.groups
	share := (s.merged.keep+s.merged.keep/4)*(int(g.group)+1)/len(s.Space) + mergedLeast/4
	share = max(share, s.merged.least)
	if s.Front.Len() <= 2*share {
		return
	}
	s.sort()
	s.shorten(share)
	g.Query.From, g.Query.To = s.lo, s.hi
	if s.Query.Desc && g.at < s.lo || !s.Query.Desc && g.at > s.hi {
		g.Over = true // with this group
	}
}

// fill takes more of the groups to front, until all have been looked at.
func (s *Search) fill(b View) error {
	m := s.merged
	g := &m.groups
	into := g.Into
	err := g.Step(b, math.MaxInt, false)
	s.Into += g.Into - into
	switch at := g.at; {
	case err == nil:
	case !errors.Is(err, block.ErrCold) || at == s.at:
		return err
	default: // the window ends before the posts that cannot be read: the next one begins there
		if s.Query.Desc {
			s.lo = at + 1
		} else {
			s.hi = at - 1
		}
		g.Query.From, g.Query.To = s.lo, s.hi
		s.within()
		g.Over = !g.nextGroup(b)
	}
	if g.Over {
		s.within()
		s.sort()
		m.full = true
	}
	return nil
}

// within removes rows of front that are not in the window.
func (s *Search) within() {
	w, n := s.Front.width, 0
	for i := 0; i < len(s.Front.flat); i += w {
		if mid := s.Front.flat[i]; mid >= s.lo && mid <= s.hi {
			n += copy(s.Front.flat[n:], s.Front.flat[i:i+w])
		}
	}
	s.Front.flat = s.Front.flat[:n]
}

// stepMerged is step of a search that is merged.
func (s *Search) stepMerged(b View, limit int, exact bool) error {
	for began := time.Now(); !s.Over && s.Rows.Len() < min(limit, s.Most) && time.Since(began) <= StepTime; {
		if s.merged == nil {
			keep := max(MergedFront/s.Front.width, mergedLeast)
			if exact && limit < StepRows {
				keep = min(keep, max(limit-s.Rows.Len(), mergedLeast))
			}
			s.window(keep)
			if wanted := limit - s.Rows.Len(); s.Query.Desc && exact && wanted <= newestRows {
				n := newest{s: s, b: b}
				n.fill(wanted)
			}
		}
		if s.merged.full {
			left := math.MaxInt
			if exact {
				left = limit - s.Rows.Len()
			}
			s.giveFront(left)
		} else if err := s.fill(b); err != nil {
			s.Leave()
			if s.Rows.Len() > 0 { // those first: the next step comes here again
				return nil
			}
			return err
		}
	}
	return nil
}
