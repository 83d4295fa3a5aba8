package hot

import (
	"math/bits"

	"github.com/counterd/counterd/schema"
)

// Demand counts, column by column, how many values need how many bits, so that the widths of a table can be chosen for the
// values it will hold. Of real posts 75-98 % of a column's values are 0, and 1-2 % need more than 4 bits: packed as wide as
// a hint of 16 asks for, most of a table would be zeros.
type Demand struct {
	Items   int
	columns []schema.Column
	need    [][maxNeed + 1]uint32 // [column][bits]: values that need that many
}

// maxNeed: a value v is packed in width bits where v < 2^width-1, so the largest, 2^63-1, needs 64 (see schema.Layout).
const maxNeed = 64

// NewDemand is that of no items, for a table with these columns, which are kept.
func NewDemand(columns []schema.Column) *Demand {
	return &Demand{columns: columns, need: make([][maxNeed + 1]uint32, len(columns))}
}

// Add counts a value of column c.
func (d *Demand) Add(c int, v uint64) { d.need[c][bits.Len64(v+1)]++ }

// Survey adds the items of t with mids in [lo, hi). Columns that t lacks count with their defaults. It calls rest now and then: see
// RestBuckets; nil: it does not.
func (t *Table) Survey(d *Demand, lo, hi uint64, rest func()) {
	var row [schema.MaxFields]uint64
	from := make([]int, len(d.columns))
	for c := range from {
		from[c] = t.items.layout.Index(d.columns[c].ID)
	}
	t.eachResting(rest, func(s Ref) bool {
		if mid := t.Mid(s); mid < lo || mid >= hi {
			return true
		}
		d.Items++
		vals := t.AppendRow(row[:0], s)
		for c, f := range from {
			if f >= 0 {
				d.Add(c, vals[f])
			} else {
				d.Add(c, d.columns[c].Default)
			}
		}
		return true
	})
}

// Choose returns the widths that take the least memory in a table with so many slots, and how many values will not fit
// them:
//
//	slots * width + values above * bits of an entry of the overflow table
//
// No column gets fewer bits than least, or its hint if that is less, or than its default needs, and none more than its
// max.
func (d *Demand) Choose(slots int, least uint8) (widths []uint8, above int) {
	entry := int(64 / overflowLoad * roomGrowth)
	for c := range d.columns {
		if d.columns[c].Limit() >= 1<<narrowValueBits {
			entry *= 2
			break
		}
	}
	widths = make([]uint8, len(d.columns))
	for c := range widths {
		col := &d.columns[c]
		floor := narrowest(col, least)
		best, out, bestOut := -1, 0, 0
		for w := int(col.Max); w >= int(floor); w-- { // out is the number of values that need more than w bits
			if cost := slots*w + out*entry; best < 0 || cost <= best {
				best, widths[c], bestOut = cost, uint8(w), out
			}
			if w == int(col.Max) { // a column of its max has no mark, so everything fits; below, what needs max bits or one more is out
				for n := w + 1; n <= maxNeed; n++ {
					out += int(d.need[c][n])
				}
			}
			out += int(d.need[c][w])
		}
		above += bestOut
	}
	return widths, above
}

// narrowest is how many bits a column gets at least: least, or its hint if that is less, and more if its default needs more.
func narrowest(col *schema.Column, least uint8) uint8 {
	return max(min(least, col.Hint), uint8(min(bits.Len64(col.Default+1), int(col.Max))), 1)
}

// roomGrowth is how many more values than counted OverflowRoom makes room for.
const roomGrowth = 1.25

// OverflowRoom is the Config.Overflow for a table with so many buckets, of whose values above will not fit: with room
// for a quarter more, and for one in 128 items, which costs 0.6 bits a slot. When that is used up, the table has
// changed enough for its widths to be chosen again.
func OverflowRoom(above, buckets int) int {
	return int(float64(above)*roomGrowth) + buckets*slotsPerBucket/128 + 1
}
