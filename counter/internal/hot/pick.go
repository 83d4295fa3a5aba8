package hot

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
)

// Found is an item that Pick found. Key rises with the mid.
//
//	columns  bit  63    62                       0
//	             +-----+--------------------------+
//	             |  0  | columns, as in the table |
//	             +-----+--------------------------+
//	             |  1  | number of a row in aside |  where a value is in the overflow table
//	             +-----+--------------------------+
type Found struct{ Key, Columns uint64 }

// aside is the bit of Found.Columns that says that the values are aside.
const aside = 1 << 63

// Picked are items of a table that Pick found. They are copied as they are packed, and AppendRows reads the values out of them: it needs
// neither the table nor its lock.
type Picked struct {
	Items []Found // the caller may take them away between two calls

	aside  []uint64 // rows, without mids
	fields []packedField
	group  uint8
	inOne  bool // all mids are of group, and keys are their numbers there

	presets bool // the table lacks a column
	stage   *stage
}

// mostFields bounds the memory of rows aside: those of a block of 64 Ki items take 4 MB at most.
const mostFields = 8

// laneRest is how many bits of a quotient fit a word above a lane.
const laneRest = 64 - probeBits - quoBits

// Begin empties p for items of t, and tells whether they can be picked. If not, or if Select need only look at the overflow table, callers use
// Select.
func (p *Picked) Begin(t *Table, q *Selection) bool {
	p.Items, p.aside, p.fields = p.Items[:0], p.aside[:0], p.fields[:0]
	p.inOne, p.group = t.geo.oneGroup, t.geo.group
	if !t.items.oneWord || t.geo.rest > laneRest || len(q.Columns) > mostFields || t.Rare(q) {
		return false
	}
	p.presets = false
	for i, c := range q.Columns {
		if c < 0 {
			p.presets = true
			p.fields = append(p.fields, packedField{preset: q.Defaults[i]})
			continue
		}
		col := t.items.column(c)
		p.fields = append(p.fields, packedField{shift: uint8(col.off) - t.geo.rest, over: col.plain != 0, mask: col.mask()})
	}
	return true
}

// Mid is that of a key.
func (p *Picked) Mid(key uint64) uint64 {
	if p.inOne {
		return slot.Post(p.group, key)
	}
	return key
}

// AppendRows appends the mid and the columns of each item.
func (p *Picked) AppendRows(dst []uint64, items []Found) []uint64 {
	n, w := len(dst), 1+len(p.fields)
	dst = slices.Grow(dst, w*len(items))[:n+w*len(items)]
	for rows := dst[n:]; len(items) > 0; {
		some := items[:min(len(items), 256)] // all stays in the first cache
		p.unpack(rows, some)
		if len(p.aside) > 0 {
			p.putAside(rows, some)
		}
		items, rows = items[len(some):], rows[w*len(some):]
	}
	return dst
}

// unpack sets the rows of items but for values that are aside. It goes over one column after the other.
func (p *Picked) unpack(rows []uint64, items []Found) {
	if len(p.fields) == 3 && !p.inOne && !p.presets {
		unpackThree(fours(rows), items, (*[3]packedField)(p.fields))
		return
	}
	w := 1 + len(p.fields)
	for i := range items {
		rows[i*w] = p.Mid(items[i].Key)
	}
	for c := range p.fields {
		f := &p.fields[c]
		shift, mask, preset := f.shift&63, f.mask, f.preset
		for i, at := 0, 1+c; i < len(items) && at < len(rows); i, at = i+1, at+w {
			rows[at] = items[i].Columns>>shift&mask | preset
		}
	}
}

// unpackThree sets the rows of items of three columns, all of which the table has.
//
//go:noinline
func unpackThree(rows [][4]uint64, items []Found, fields *[3]packedField) {
	rows = rows[:len(items)]
	a, b, c := fields[0], fields[1], fields[2]
	for i := range items {
		columns := items[i].Columns
		rows[i] = [4]uint64{items[i].Key, columns >> (a.shift & 63) & a.mask, columns >> (b.shift & 63) & b.mask, columns >> (c.shift & 63) & c.mask}
	}
}

// putAside puts the values that are aside in the place of their numbers in rows.
func (p *Picked) putAside(rows []uint64, items []Found) {
	w := 1 + len(p.fields)
	for i := range items {
		if columns := items[i].Columns; columns&aside != 0 {
			copy(rows[i*w+1:][:w-1], p.aside[int(columns&^aside)*(w-1):])
		}
	}
}

// picking is a call of Pick. It copies the items of some buckets as they are to a stage, and then finds the keys of all of them, as one loop
// would need more registers than there are.
type picking struct {
	p           *Picked
	t           *Table
	q           *Selection
	all         bool   // all keys are in the range
	tops, lows  uint64 // the highest bit of each wanted column that may be a mark, and its other bits
	rest, items packedSlots

	*stage
	n int // items on the stage
}

// packedSlots says where some bits of each slot of a bucket are.
type packedSlots struct {
	mask  uint64
	off   [slotsPerBucket]uint16
	shift [slotsPerBucket]uint8
}

// slots returns where the bits from off on are in the items of a bucket.
func (x *items) slots(off, width uint) packedSlots {
	p := packedSlots{mask: 1<<width - 1}
	for s := range p.off {
		bit := uint(s)*uint(x.width) + off
		p.off[s], p.shift[s] = uint16(headerBytes+bit>>3), uint8(bit&7)
	}
	return p
}

// of returns the bits of slot s of the bucket at b.
func (p *packedSlots) of(b unsafe.Pointer, s int) uint64 {
	return load64(b, uintptr(p.off[s&7])) >> (p.shift[s&7] & 7) & p.mask
}

// Pick is Select to p, which has begun with q and a table that t is or was.
func (t *Table) Pick(p *Picked, from, to int, q *Selection) {
	if t.n == 0 || !q.prepare(t) {
		return
	}
	if p.stage == nil {
		p.stage = new(stage)
	}
	x := &t.items
	k := picking{p: p, t: t, q: q, stage: p.stage, all: q.Lo <= t.lo && q.Hi >= t.hi-1}
	k.rest, k.items = x.slots(0, uint(t.geo.rest)), x.slots(uint(t.geo.rest), uint(x.layout.Bits))
	for i := range p.fields {
		if f := &p.fields[i]; f.over && x.over.n > 0 {
			top := (f.mask>>1 + 1) << (f.shift & 63)
			k.tops, k.lows = k.tops|top, k.lows|f.mask<<(f.shift&63)&^top
		}
	}
	var found [filterBuckets]uint8
	for ; from < to; from += filterBuckets {
		for i, hits := range found[:q.filter(t, from, to, &found)] {
			if hits != 0 {
				k.bucket(uint64(from+i), uint64(hits))
			}
		}
	}
	k.flush()
}

// bucket takes the items of bucket b with a bit in hits.
func (k *picking) bucket(b, hits uint64) {
	if k.n > stageItems-slotsPerBucket {
		k.flush()
	}
	x := &k.t.items
	if k.q.again {
		for rest := hits; rest != 0; rest &= rest - 1 {
			if s := Ref(bits.TrailingZeros64(rest)); !k.q.holds(x, Ref(b<<3)+s) {
				hits &^= 1 << s
			}
		}
	}
	k.n = k.put(unsafe.Add(x.base, x.at(b)), b<<3, hits, &k.rest, &k.items, k.n)
}

// marks puts the values of items aside of which one is in the overflow table: where a wanted column is all ones. Adding lows to the other bits of
// a column carries into its highest bit where one of them is not 0, and never beyond.
func (k *picking) marks() {
	lows, tops := k.lows, k.tops
	for i, columns := range k.columns[:k.n] {
		if y := ^columns; (y&lows+lows|y)&tops != tops {
			k.columns[i] = k.setAside(Ref(k.refs[i]))
		}
	}
}

// setAside makes a row of the item at ref, and returns what Found.Columns has in its place.
func (k *picking) setAside(ref Ref) uint64 {
	p := k.p
	n := uint64(len(p.aside) / len(p.fields))
	for i, c := range k.q.Columns {
		if c < 0 {
			p.aside = append(p.aside, k.q.Defaults[i])
		} else {
			p.aside = append(p.aside, k.t.Get(ref, c))
		}
	}
	return aside | n
}

// flush moves all items of the stage to p.
func (k *picking) flush() {
	n := len(k.p.Items)
	k.p.Items = slices.Grow(k.p.Items, k.n)[:n+k.n]
	found, span := k.p.Items[n:], k.q.end-k.q.first
	if k.tops != 0 {
		k.marks()
	}
	k.movedRemainders(&k.t.geo, k.firstRemainders(&k.t.geo, k.n))
	k.untwist(&k.t.geo, k.t.geo.seed^twistInput, found)
	if k.n = 0; k.all {
		return
	}
	in := 0
	for _, f := range found {
		_, inside := bits.Sub64(f.Key-k.q.first, span, 0)
		found[in] = f
		in += int(inside)
	}
	k.p.Items = k.p.Items[:n+in]
}
