package block

import (
	"time"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Widths. The open block packs columns as wide as their hints. Every other block has widths of its own, chosen when it
// is made from the values it holds then (hot.Demand): real posts have 75-98 % zeros, so 3-5 bits a column, with 1-3 %
// of values in the overflow table, take the least memory where the hints say 16.
//
// A block that is full and grows keeps its widths. A block is sealed young, and its counters will grow: 79 % of increments come within a day of the post. So
//
//   - no column gets fewer than youngBits then: a block of zeros would need to be re-packed as soon as it is read for
//     the first time
//   - when more values overflow than room was made for (a quarter more than at first, and one in 128 items), widths are
//     chosen again (Widen). The room grows with each time, so a block is re-packed some 5 times in its life, beside its
//     writers
//   - an hour after that the widths are chosen once more, with tightBits as the least, and taken if they save a
//     sixteenth (tighten). This also narrows blocks read from images of before blocks had widths of their own
//
// Widths are a node's own affair: the log and replicas do not know of them; images carry them.
const (
	YoungBits = 4
	TightBits = 2
	// tightenGain is the part of a block's memory that settling must save, or a snapshot would write blocks again for
	// nothing.
	tightenGain = 16
	// tightenLoad leaves 3 % for ids that come hours late.
	tightenLoad = 0.945
	// TightenAfter is how long a block is left alone after its widths were chosen.
	TightenAfter = time.Hour
	// TightenTick is how often all blocks are asked for their turn: 20 ns each.
	TightenTick = time.Minute
)

// Plan is a block to be made of the items of another.
type Plan struct {
	Lo, Hi    uint64
	Items     int // with mids in [lo, hi), or as many as there shall be room for if that is more
	Load      float64
	Layout    *schema.Layout
	Shape     *schema.Layout // the counter's, whose columns layout has
	above     int            // values that will be in the overflow table
	tightened bool
}

// config is the table for plan, scale times as large as planned.
func (p *Plan) config(scale float64) hot.Config {
	items := int(scale * float64(max(p.Items, int(SmallestBlock*p.Load))))
	c := hot.Config{Lo: p.Lo, Hi: p.Hi, Buckets: hot.BucketsFor(items, p.Load), Layout: p.Layout}
	if p.Hi != hot.EndMid {
		c.Overflow = hot.OverflowRoom(p.above, c.Buckets)
	}
	return c
}

// Plan makes that for the items of b with mids in [lo, hi), with room for at least items. REQUIRES b.Mu held.
func (cs *Columns) Plan(b *Block, lo, hi uint64, items int, load float64) Plan {
	if hi == hot.EndMid {
		return Plan{Lo: lo, Hi: hi, Items: items, Load: load, Layout: cs.Layout, Shape: cs.Layout}
	}
	d := hot.NewDemand(cs.Def.Columns)
	b.Tab.Survey(d, lo, hi, cs.Rest)
	return cs.PlanFor(d, lo, hi, items, load, YoungBits)
}

// PlanFor is plan for items that were counted.
func (cs *Columns) PlanFor(d *hot.Demand, lo, hi uint64, items int, load float64, least uint8) Plan {
	p := Plan{Lo: lo, Hi: hi, Items: max(items, d.Items), Load: load, Layout: cs.Layout, Shape: cs.Layout}
	widths, above := d.Choose(int(float64(p.Items)/load), least)
	if l, err := schema.NewLayoutWidths(cs.Def.Columns, widths); err == nil { // always: widths are within 1 and max
		p.Layout, p.above = l, above
	}
	return p
}

// Crowded tells whether widths are to be chosen again: more values overflow than room was made for, and more than are tolerated.
func (b *Block) Crowded() bool {
	return b.Tab.Crowded() && b.Tab.Overflows() > int(b.Tolerated)
}

// patience is how many times as many values overflow when a writer no longer waits for the background to choose widths.
const patience = 4

// Widen is called when b is Crowded. The background chooses widths beside the writers (tier.Repacker), as that takes 4 ms for 64 Ki items, for
// which a loop would keep all its connections waiting. Until then more values overflow. If b is small, or the background does not keep up, it
// is done here. Widen returns the block that is locked then: a new one in the place of b, or b. If there is no memory, b goes on serving, and
// it is tried again when twice as many values overflow. REQUIRES b.Mu held.
func (ks *Keyspace) Widen(b *Block, mid uint64) *Block {
	if b.Cold != nil || b.Open() || b.Tab.Overflows() <= int(b.Tolerated) || b.Tolerated == 0 && askWidths(ks, b) {
		return b
	}
	next, err := ks.Repack(b, mid)
	if err != nil {
		b.Tolerated = int32(2 * b.Tab.Overflows())
	}
	return next
}

// askWidths has the background choose widths for b, and tells whether it will. REQUIRES b.Mu held.
func askWidths(ks *Keyspace, b *Block) bool {
	if ks.AheadAt == 0 || b.Tab.Len() < AheadLeast {
		return false
	}
	select {
	case ks.Widening <- Place{ks, b.Lo}:
		b.Tolerated = int32(patience * b.Tab.Overflows())
		return true
	default: // it does not keep up
		return false
	}
}

// Place is where a block is.
type Place struct {
	Keyspace *Keyspace
	Mid      uint64
}

// tightenPlan plans the widths of b anew, for counters that hardly grow any more, and tells whether that is worth it.
// REQUIRES b.Mu held.
func (ks *Keyspace) tightenPlan(cs *Columns, b *Block) (p Plan, worth bool) {
	if b.Cold != nil || b.Open() {
		return p, false
	}
	d := hot.NewDemand(cs.Def.Columns)
	b.Tab.Survey(d, b.Lo, b.Hi, cs.Rest)
	p = cs.PlanFor(d, b.Lo, b.Hi, 0, tightenLoad, TightBits)
	p.tightened = true
	was := b.Tab.Bytes()
	return p, ks.Builder.placed(p.config(1)).Bytes() <= was-was/tightenGain
}

// TightenDue tells whether it is time to tighten. REQUIRES b.Mu held.
func (b *Block) TightenDue(now time.Time) bool {
	return !b.Tightened && b.Cold == nil && !b.Open() && now.Sub(b.Packed) >= TightenAfter
}

// TightenPlans plans widths for counters that hardly grow any more; none if that gains little.
func (ks *Keyspace) TightenPlans(cs *Columns, b *Block) []Plan {
	if p, worth := ks.tightenPlan(cs, b); worth {
		return []Plan{p}
	}
	return nil
}
