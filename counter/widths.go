package counter

import (
	"time"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Widths. The open block packs columns as wide as their hints. Every other block has widths of its own, chosen when it
// is made from the values it holds then (hot.Demand): real posts have 75-98 % zeros, so 3-5 bits a column, with 1-3 %
// of values in the overflow table, take the least memory where the hints say 16.
//
// A block is sealed young, and its counters will grow: 79 % of increments come within a day of the post. So
//
//   - no column gets fewer than youngBits then: a block of zeros would need to be re-packed as soon as it is read for
//     the first time
//   - when more values overflow than room was made for (a quarter more than at first, and one in 128 items), widths are
//     chosen again (widen). The room grows with each time, so a block is re-packed some 5 times in its life, each a few
//     ms of its own writers only
//   - an hour after that the widths are chosen once more, with tightBits as the least, and taken if they save a
//     sixteenth (tighten). This also narrows blocks read from images of before blocks had widths of their own
//
// Widths are a node's own affair: the log and replicas do not know of them; images carry them.
const (
	youngBits = 4
	tightBits = 2
	// tightenGain is the part of a block's memory that settling must save, or a snapshot would write blocks again for
	// nothing.
	tightenGain = 16
	// tightenLoad leaves 3 % for ids that come hours late.
	tightenLoad = 0.945
	// tightenAfter is how long a block is left alone after its widths were chosen.
	tightenAfter = time.Hour
	// tightenTick is how often all blocks are asked for their turn: 20 ns each.
	tightenTick = time.Minute
)

// plan is a block to be made of the items of another.
type plan struct {
	lo, hi    uint64
	items     int // with mids in [lo, hi), or as many as there shall be room for if that is more
	load      float64
	layout    *schema.Layout
	shape     *schema.Layout // the counter's, whose columns layout has
	above     int            // values that will be in the overflow table
	tightened bool
}

// config is the table for plan, scale times as large as planned.
func (p *plan) config(scale float64) hot.Config {
	items := int(scale * float64(max(p.items, int(smallestBlock*p.load))))
	c := hot.Config{Lo: p.lo, Hi: p.hi, Buckets: hot.BucketsFor(items, p.load), Layout: p.layout}
	if p.hi != hot.EndMid {
		c.Overflow = hot.OverflowRoom(p.above, c.Buckets)
	}
	return c
}

// plan makes that for the items of b with mids in [lo, hi), with room for at least items. REQUIRES b.mu held.
func (cs *columns) plan(b *block, lo, hi uint64, items int, load float64) plan {
	if hi == hot.EndMid {
		return plan{lo: lo, hi: hi, items: items, load: load, layout: cs.layout, shape: cs.layout}
	}
	d := hot.NewDemand(cs.def.Columns)
	b.tab.Survey(d, lo, hi)
	return cs.planFor(d, lo, hi, items, load, youngBits)
}

// planFor is plan for items that were counted.
func (cs *columns) planFor(d *hot.Demand, lo, hi uint64, items int, load float64, least uint8) plan {
	p := plan{lo: lo, hi: hi, items: max(items, d.Items), load: load, layout: cs.layout, shape: cs.layout}
	widths, above := d.Choose(int(float64(p.items)/load), least)
	if l, err := schema.NewLayoutWidths(cs.def.Columns, widths); err == nil { // always: widths are within 1 and max
		p.layout, p.above = l, above
	}
	return p
}

// widen is called when b's overflow table has left its memory. It returns the block that is locked then: a new one in
// the place of b, or b, if there is no memory: it goes on serving, and it is tried again when twice as many values
// overflow. REQUIRES b.mu held.
func (ks *keyspace) widen(b *block, mid uint64) *block {
	if b.cold != nil || b.open() || b.tab.Overflows() <= int(b.tolerated) {
		return b
	}
	next, err := ks.repack(b, mid)
	if err != nil {
		b.tolerated = int32(2 * b.tab.Overflows())
	}
	return next
}

// tightenPlan plans the widths of b anew, for counters that hardly grow any more, and tells whether that is worth it.
// REQUIRES b.mu held.
func (ks *keyspace) tightenPlan(cs *columns, b *block) (p plan, worth bool) {
	if b.cold != nil || b.open() {
		return p, false
	}
	d := hot.NewDemand(cs.def.Columns)
	b.tab.Survey(d, b.lo, b.hi)
	p = cs.planFor(d, b.lo, b.hi, 0, tightenLoad, tightBits)
	p.tightened = true
	was := b.tab.Bytes()
	return p, ks.placed(p.config(1)).Bytes() <= was-was/tightenGain
}

// tightenDue tells whether it is time to tighten. REQUIRES b.mu held.
func (b *block) tightenDue(now time.Time) bool {
	return !b.tightened && b.cold == nil && !b.open() && now.Sub(b.packed) >= tightenAfter
}
