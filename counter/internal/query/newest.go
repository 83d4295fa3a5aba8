package query

import (
	"math"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// The newest few posts of a store made of groups are found by the lists that groups have of their newest mids (block.Newest). A look at
// the tables of all 256 open blocks takes 40 times as long as one at the only open block of a store that is not made of groups.
//
//	lists    the newest few mids of each group from the window's end on, all in one order
//	rows     those that meet the query, until there are as many rows as are wanted: the window ends at the last row
//	again    groups of whose list not all in the window was looked at
//	tables   of groups whose list does not reach to the end of the window: only these are left to be searched
//
// Posts are spread evenly, so a group has at most a few of them.

const (
	// newestRows is the most rows that are looked for in lists.
	newestRows = 512
	// newestFirst is how many mids of each group are looked at first, besides twice a group's share of the rows wanted.
	newestFirst = 4
)

// newest is the search of lists.
type newest struct {
	s      *Search
	b      View
	mids   []uint64
	floors [slot.Groups]uint64 // each post of the group that is in the window, and not below, was looked at
}

// fill begins the window with rows of the lists, so many at most, and leaves out groups that have no others there.
func (n *newest) fill(wanted int) {
	s, of := n.s, n.s.Ks
	first := newestFirst + 2*wanted/len(s.Space)
	n.mids = make([]uint64, 0, first*len(s.Space))
	for i, ks := range s.Space {
		if s.Ks = ks; !s.hidden(n.b) {
			n.list(i, first)
		}
	}
	slices.Sort(n.mids)
	for i := len(n.mids) - 1; i >= 0 && s.Front.Len() < wanted; i-- {
		n.lookUp(n.mids[i])
	}
	if s.Front.Len() >= wanted {
		s.lo = s.Front.flat[len(s.Front.flat)-s.Front.width]
	}
	groups := &s.merged.groups
	for i, ks := range s.Space {
		if s.Ks = ks; n.floors[i] > s.lo && n.floors[i] != math.MaxUint64 && !s.hidden(n.b) {
			n.mids = n.mids[:0]
			if n.list(i, math.MaxInt); n.floors[i] <= s.lo {
				for _, mid := range n.mids {
					n.lookUp(mid)
				}
			}
		}
		if n.floors[i] <= s.lo {
			groups.covered.Add(uint8(i))
		}
	}
	s.Ks = of
	s.merged.least = wanted
	s.sort()
	groups.restart(s.lo, s.hi)
	s.merged.full = groups.covered.Len() == len(s.Space)
}

// list appends the newest mids of the group that the search is in, so many at most of those in the window.
func (n *newest) list(group, most int) {
	blk := n.s.Ks.Lock(schema.MaxMid)
	defer blk.Mu.Unlock()
	n.b.NoteSeen(blk.Logged)
	n.mids, n.floors[group] = blk.AppendNewest(n.mids, n.s.lo, n.s.hi, most)
}

// lookUp appends the item mid to front, if it is there and meets the query. Of a group whose list has come to a cold block the tables
// and files are searched.
func (n *newest) lookUp(mid uint64) {
	s := n.s
	s.Ks = s.Space.Of(mid)
	blk := s.Ks.Lock(mid)
	defer blk.Mu.Unlock()
	n.b.NoteSeen(blk.Logged)
	if blk.Cold != nil {
		n.floors[s.Ks.Group] = math.MaxUint64
		return
	}
	p, err := s.Ks.Find(blk, mid)
	if err == nil && p.Where == block.InTable {
		err = s.Item(&s.Front, blk, mid, p)
	}
	if err != nil {
		n.floors[s.Ks.Group] = math.MaxUint64
	}
}
