package hot

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
)

// Range is a condition on a column, an index into Layout: values from Lo to Hi, but none of Not.
type Range struct {
	Column int
	Lo, Hi uint64
	Not    []uint64
}

// Selection says which items Select finds, and what of them. It may be used for one table after another.
type Selection struct {
	Lo, Hi   uint64   // mids, both inclusive
	Ranges   []Range  // all must hold
	Columns  []int    // whose values are wanted, indexes into Layout; -1: one that the table lacks
	Defaults []uint64 // of those that it lacks
	NoMids   bool     // mids are not wanted

	packed     []packedRange
	first, end uint64 // keys of mids from Lo to Hi
}

// packedRange is a Range on the packed values of a column: from lo to lo+width. Values in the overflow table all look
// like the mark, so an item with the mark is looked at again.
type packedRange struct {
	lo, width, mask uint64
	off             [slotsPerBucket]uintptr // in the bucket, by slot
	shift           [slotsPerBucket]uint8
	column          int
	again           bool // what looks right must be looked at again
}

// pack makes r a packedRange, and tells whether an item can meet it.
func (t *Table) pack(r *Range) (p packedRange, any bool) {
	col := t.column(r.Column)
	lo, hi := r.Lo, min(r.Hi, t.Limit(r.Column))
	if mark := col.mark(); col.plain != 0 {
		p.again = hi >= mark
		lo, hi = min(lo, mark), min(hi, mark)
	}
	p.again = p.again || len(r.Not) > 0
	p.column, p.lo, p.width, p.mask = r.Column, lo, hi-lo, col.mask()
	for s := range p.off {
		bit := uint(s)*uint(t.width) + uint(col.off)
		p.off[s], p.shift[s] = headerBytes+uintptr(bit>>3), uint8(bit&7)
	}
	return p, r.Lo <= r.Hi && lo <= hi
}

// holds tells whether the item at s meets r, whatever its column looks like.
func (t *Table) holds(s Ref, r *Range) bool {
	v := t.Get(s, r.Column)
	return v-r.Lo <= r.Hi-r.Lo && (len(r.Not) == 0 || !slices.Contains(r.Not, v))
}

// Buckets is how many buckets the table has: what Select goes over.
func (t *Table) Buckets() int { return int(t.m) }

// Rare tells whether only items of the overflow table can meet the conditions: then Select of no bucket but the first
// finds any, and takes no longer than a look at that table. It holds for most conditions that few items meet.
func (t *Table) Rare(q *Selection) bool { return t.rare(q) >= 0 }

// rare returns the number of a range whose values are all in the overflow table, or -1.
func (t *Table) rare(q *Selection) int {
	if t.over.capacity() > t.Slots()/4 {
		return -1
	}
	return slices.IndexFunc(q.Ranges, func(r Range) bool { return r.Lo >= t.column(r.Column).mark() })
}

// Select appends the items in buckets from from on, below to, that q means: mid (0 if it is not wanted) and values of
// each. All buckets together hold each item once. An item stays in its bucket as long as it is there.
//
// It takes about 1 ns a slot where few items are found, 20 to 30 ns an item found.
func (t *Table) Select(dst []uint64, from, to int, q *Selection) []uint64 {
	if t.n == 0 {
		return dst
	}
	q.packed = q.packed[:0]
	for i := range q.Ranges {
		p, any := t.pack(&q.Ranges[i])
		if !any {
			return dst
		}
		q.packed = append(q.packed, p)
	}
	all := q.Lo <= t.lo && q.Hi >= t.hi-1
	q.first, q.end = t.keys(q.Lo, q.Hi)
	if i := t.rare(q); i >= 0 {
		if from == 0 {
			dst = t.selectRare(dst, q, i, all)
		}
		return dst
	}
	for b := from; b < to; b++ {
		off := t.at(uint64(b))
		hits := usedBits(load64(t.base, off)) | usedBits(load64(t.base, off+8))<<4
		for i := range q.packed {
			if hits == 0 {
				break
			}
			if t.column(q.packed[i].column).width <= 57 {
				hits &^= t.misses(off, &q.packed[i])
			} else {
				hits &^= t.missesWide(b, &q.packed[i])
			}
		}
		for ; hits != 0; hits &= hits - 1 {
			dst = t.selected(dst, Ref(b<<3+bits.TrailingZeros64(hits)), q, all)
		}
	}
	return dst
}

// usedBits returns a bit for each of the four lanes of w that is used.
func usedBits(w uint64) uint64 {
	x := ^match(w, 0) & ^uint64(laneLow) >> 15 // bits 0, 16, 32, 48
	// Bit 16i moves to 48+i; no two of the other products meet, so nothing is carried.
	return x * (1<<48 | 1<<33 | 1<<18 | 1<<3) >> 48 & 0xf
}

// misses returns a bit for each slot of the bucket at off whose packed value is not in p. It has no branch that depends
// on the values. Written out it takes half of the time that a loop does.
func (t *Table) misses(off uintptr, p *packedRange) uint64 {
	b := unsafe.Add(t.base, off)
	m0 := p.miss(b, 0) | p.miss(b, 1)<<1
	m2 := p.miss(b, 2)<<2 | p.miss(b, 3)<<3
	m4 := p.miss(b, 4)<<4 | p.miss(b, 5)<<5
	m6 := p.miss(b, 6)<<6 | p.miss(b, 7)<<7
	return m0 | m2 | m4 | m6
}

// miss is 1 if the packed value of slot s of the bucket at b is not in p, else 0.
func (p *packedRange) miss(b unsafe.Pointer, s int) uint64 {
	_, above := bits.Sub64(p.width, load64(b, p.off[s])>>(p.shift[s]&7)&p.mask-p.lo, 0)
	return above
}

// missesWide is misses of the bucket with number b for a column that 8 bytes from a whole one may not hold.
func (t *Table) missesWide(b int, p *packedRange) (m uint64) {
	col := t.column(p.column)
	for s := range Ref(slotsPerBucket) {
		if v := t.packed(Ref(b)<<3+s, col); v-p.lo > p.width {
			m |= 1 << s
		}
	}
	return m
}

// selectRare is Select of all buckets where range number i is met by values of the overflow table only.
func (t *Table) selectRare(dst []uint64, q *Selection, i int, all bool) []uint64 {
	if t.over.n == 0 {
		return dst
	}
	r := &q.Ranges[i]
	columns := uint64(t.count)
	for place := range t.over.capacity() {
		key, v, used := t.over.at(place)
		if !used || v < r.Lo || v > r.Hi || key%columns != uint64(r.Column) {
			continue
		}
		ref, ok := Ref(key/columns), true
		for k := range q.Ranges {
			if ok = t.holds(ref, &q.Ranges[k]); !ok {
				break
			}
		}
		if ok {
			dst = t.row(dst, ref, q, all)
		}
	}
	return dst
}

// selected appends the item at s, whose packed values look right, if it is meant.
func (t *Table) selected(dst []uint64, s Ref, q *Selection, all bool) []uint64 {
	for i := range q.packed {
		if q.packed[i].again && !t.holds(s, &q.Ranges[i]) {
			return dst
		}
	}
	return t.row(dst, s, q, all)
}

// row appends the item at s if its mid is in the range. all says that those of all items are.
func (t *Table) row(dst []uint64, s Ref, q *Selection, all bool) []uint64 {
	mid := uint64(0)
	if !all || !q.NoMids {
		key := t.key(t.lane(s))
		if key < q.first || key >= q.end {
			return dst
		}
		if mid = key; t.oneGroup {
			mid = slot.Post(t.group, key)
		}
	}
	dst = append(dst, mid)
	if t.oneWord {
		bit := uint(s&7)*uint(t.width) + uint(t.rest)
		word := load64(t.base, t.at(uint64(s>>3))+headerBytes+uintptr(bit>>3)) >> (bit & 7)
		for i, c := range q.Columns {
			if c < 0 {
				dst = append(dst, q.Defaults[i])
				continue
			}
			col := t.column(c)
			v := word >> ((col.off - uint16(t.rest)) & 63) & col.mask()
			if v == col.mark() {
				v = t.over.get(t.overKey(s, c))
			}
			dst = append(dst, v)
		}
		return dst
	}
	for i, c := range q.Columns {
		if c < 0 {
			dst = append(dst, q.Defaults[i])
		} else {
			dst = append(dst, t.Get(s, c))
		}
	}
	return dst
}

// Most returns a value that no item is above in column c: the largest, or one that the column's width has room for.
func (t *Table) Most(c int) uint64 {
	col := t.column(c)
	if t.n == 0 {
		return 0
	}
	if col.plain == 0 {
		return t.Limit(c)
	}
	most, columns := col.mark()-1, uint64(t.count)
	if t.over.n == 0 {
		return most
	}
	for place := range t.over.capacity() {
		if key, v, used := t.over.at(place); used && v > most && key%columns == uint64(c) {
			most = v
		}
	}
	return most
}
