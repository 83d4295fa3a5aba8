// Package feedview judges what a consumer of the feed of changes gets, where the changes are known: clients add one to a counter at a time. So
// each value of a counter is one more than the value before it, and a change that is lost, comes twice or comes out of order gives
// another one. Pages are posts that each change changes as a whole; the owner of a page sets rising versions.
//
// # Files
//
//	view.go    View: the values by the feed, and the rules
//	change.go  changes, as COUNTER.FEED answers them
package feedview

import (
	"fmt"
	"math"
	"slices"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Cell is a counter of a post.
type Cell struct {
	Counter string
	Mid     uint64
	Column  string
}

// Page is counters that each change of the page changes, all to the same value.
type Page struct {
	Name  string
	Cells []Cell
	Owned bool // it is set to rising versions; else each change adds one
}

// Options say what the clients do.
type Options struct {
	Shards  int    // of the cluster; 0: it is none
	Cells   []Cell // to which clients add one at a time
	Pages   []Page
	Repeats bool     // a change may set the value that is there: a read that only a primary answers is INCRBY 0
	Growing []string // counters whose posts clients make all the time, beside Cells
	GiveUp  bool     // the owner of a page may give a version up, which comes later
	Undo    bool     // changes may be taken back
}

// View is the values of all counters by a feed. The faults that its methods return are sentences.
//
// INVARIANT: a value that is known is the sum of the differences that the feed gave.
type View struct {
	o       Options
	cells   map[Cell]*seen
	pages   map[Cell]*Page
	owners  [slot.Groups]uint64 // the shard that has each group of hash slots, by gains and losses; 0: not known
	numbers map[string]bool     // parts of numbered changes
	gap     bool                // changes were not seen, maybe of cells that are not known
	journal []step              // which Undo takes back
	changes int
}

// seen is the knowledge of a cell.
type seen struct {
	value int64
	top   int64 // the highest version of a page that has an owner
	free  bool  // changes were not seen, so the next value may be any

	// flushes are those of the shard since the last change of the cell. The feed of the shard that gains the cell may come later, and tell that the
	// cell had gone before.
	flushes []flush
}

// flush is a cell before a flush of its shard, which ends at an offset of the shard's log.
type flush struct {
	shard, at uint64
	value     int64
	free      bool
}

// nobody owns groups that a shard has lost, until another one gains them.
const nobody = math.MaxUint64

// step is a cell before a change that ends at an offset of the log.
type step struct {
	at  uint64
	of  Cell
	was seen
}

// New returns the view of a consumer that begins where all counters are 0.
func New(o Options) *View {
	v := &View{o: o, cells: make(map[Cell]*seen), pages: make(map[Cell]*Page), numbers: make(map[string]bool)}
	for id, groups := range topology.Deal(max(1, o.Shards)) {
		for _, g := range groups.List() {
			v.owners[g] = uint64(id + 1)
		}
	}
	for _, of := range o.Cells {
		v.cells[of] = new(seen)
	}
	for i := range o.Pages {
		for _, of := range o.Pages[i].Cells {
			v.cells[of], v.pages[of] = new(seen), &o.Pages[i]
		}
	}
	return v
}

// Changes is how many changes the feed gave.
func (v *View) Changes() int { return v.changes }

// Value is that of a cell by the feed.
func (v *View) Value(of Cell) (value int64, known bool) {
	if s := v.cells[of]; s != nil {
		return s.value, !s.free
	}
	return 0, !v.gap // of a growing counter
}

// came notes a numbered change, and tells whether a part of it came before. The parts of an update come from several shards.
func (v *View) came(c *Change) (before bool) {
	var parts []string
	for i := range c.Parts {
		p := &c.Parts[i]
		part := fmt.Sprintf("%s %s %s %d", c.Producer, c.Seq, p.Counter, p.Mid)
		parts, before = append(parts, part), before || v.numbers[part]
	}
	for _, part := range parts { // a change may have two parts of a post
		v.numbers[part] = true
	}
	return before
}

// Take takes a change of a shard, which ends at an offset of its log.
func (v *View) Take(shard, at uint64, c *Change) (faults []string) {
	v.changes++
	if c.Producer != "" && !v.o.Undo {
		if v.came(c) {
			faults = append(faults, fmt.Sprintf("the numbered change %s %s came twice", c.Producer, c.Seq))
		}
	}
	var turned []*Page
	for i := range c.Parts {
		p := &c.Parts[i]
		groups := p.set()
		switch p.Kind {
		case "set":
			for k, column := range p.Columns {
				of := Cell{p.Counter, p.Mid, column}
				if page := v.pages[of]; page != nil && !slices.Contains(turned, page) {
					turned = append(turned, page)
				}
				if fault := v.differs(of, p); fault != "" {
					faults = append(faults, fault)
				}
				if fault := v.put(at, of, p.Values[k]); fault != "" {
					faults = append(faults, fault)
				}
			}
		case "del":
			for of, page := range v.pages {
				if of.Counter == p.Counter && of.Mid == p.Mid && !slices.Contains(turned, page) {
					turned = append(turned, page)
				}
			}
			v.remove(at, func(of Cell) bool { return of.Counter == p.Counter && of.Mid == p.Mid })
		case "flush":
			gone := func(of Cell) bool { return v.o.Shards == 0 || v.owners[slot.Group(of.Mid)] == shard }
			for of, s := range v.cells {
				if v.o.Shards > 0 && gone(of) {
					s.flushes = append(s.flushes, flush{shard, at, s.value, s.free})
				}
			}
			v.remove(at, gone)
			for of, s := range v.cells {
				if v.o.Shards > 0 && v.owners[slot.Group(of.Mid)] == 0 {
					s.free = true
				}
			}
		case "drop":
			v.remove(at, func(of Cell) bool {
				return of.Counter == p.Counter && of.Mid >= p.Mid && of.Mid < p.End && groups.Has(slot.Group(of.Mid))
			})
		case "gain":
			v.gain(shard, p, groups)
		case "lose":
			for _, g := range groups.List() {
				if v.owners[g] == shard { // else another one has gained it
					v.owners[g] = nobody
				}
			}
		}
	}
	for _, page := range turned {
		if v.half(page) {
			faults = append(faults, "it gave half a change of "+page.Name)
		}
	}
	return faults
}

// gain notes that groups are a shard's. Flushes of the shard before, behind the place where it gave them away, have not removed their posts.
func (v *View) gain(shard uint64, p *Part, groups slot.Set) {
	for of, s := range v.cells {
		if !groups.Has(slot.Group(of.Mid)) {
			continue
		}
		for _, f := range s.flushes {
			if f.shard == p.From && f.at > p.Offset {
				s.value, s.free = f.value, f.free
				break
			}
		}
		s.flushes = nil
	}
	for _, g := range groups.List() {
		v.owners[g] = shard
	}
}

// before is the knowledge of a cell, which a change that ends at an offset is about to change; nil: clients do not change it.
func (v *View) before(offset uint64, of Cell) *seen {
	s := v.cells[of]
	if s != nil && v.o.Undo {
		v.journal = append(v.journal, step{offset, of, *s})
	}
	return s
}

// differs compares the old value of a part with that of a cell.
func (v *View) differs(of Cell, p *Part) (fault string) {
	s := v.cells[of]
	if s == nil || s.free || !p.Told || p.Old[of.Column] == s.value {
		return ""
	}
	return fmt.Sprintf("%s of %d was %d before a change that tells %v", of.Column, of.Mid, s.value, p.Old)
}

// put notes a new value.
func (v *View) put(offset uint64, of Cell, value int64) (fault string) {
	if v.cells[of] == nil && slices.Contains(v.o.Growing, of.Counter) {
		v.cells[of] = &seen{free: v.gap}
	}
	s := v.before(offset, of)
	if s == nil {
		return ""
	}
	was, page, again := s.value, v.pages[of], v.o.Repeats && value == s.value
	switch {
	case s.free || again:
	case page != nil && page.Owned:
		if value <= s.top && !v.o.GiveUp {
			fault = fmt.Sprintf("%s of %d became %d behind %d", of.Column, of.Mid, value, s.top)
		}
	case value != was+1:
		fault = fmt.Sprintf("%s of %d became %d behind %d, want %d", of.Column, of.Mid, value, was, was+1)
	}
	s.value, s.top, s.free, s.flushes = value, max(s.top, value), false, nil
	return fault
}

// remove notes that posts are gone.
func (v *View) remove(offset uint64, gone func(Cell) bool) {
	for of := range v.cells {
		if gone(of) {
			s := v.before(offset, of)
			s.value, s.free = 0, false
		}
	}
}

// half tells whether the counters of a page differ.
func (v *View) half(p *Page) bool {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, of := range p.Cells {
		value, known := v.Value(of)
		if !known {
			return false
		}
		least, most = min(least, value), max(most, value)
	}
	return least != most
}

// Gap notes that changes were not seen, of any cell, nor moves. The next value of each may be any.
func (v *View) Gap() {
	if v.o.Shards > 1 {
		clear(v.owners[:])
	}
	v.gap = true
	for of := range v.cells {
		s := v.before(math.MaxUint64, of)
		s.free, s.flushes = true, nil
	}
}

// Forget has the consumer begin anew, at any place.
func (v *View) Forget() {
	v.Gap()
	v.journal = nil
	clear(v.numbers)
	for _, s := range v.cells {
		s.top = 0
	}
}

// Undo takes the changes behind an offset back. Those before a gap count as not seen.
func (v *View) Undo(offset uint64) {
	for n := len(v.journal); n > 0 && v.journal[n-1].at > offset; n-- {
		step := &v.journal[n-1]
		if step.at == math.MaxUint64 {
			return
		}
		*v.cells[step.of] = step.was
		v.journal = v.journal[:n-1]
	}
}
