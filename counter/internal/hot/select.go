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

// Selection says which items Select finds, and which of their columns it returns. It may be used for one table after
// another.
type Selection struct {
	Lo, Hi   uint64   // mids, both inclusive
	Ranges   []Range  // all must hold
	Columns  []int    // whose values are wanted, indexes into Layout; -1: the table lacks the column
	Defaults []uint64 // of those that it lacks
	NoMids   bool     // mids are not wanted
	Plain    bool     // vector instructions are not used, for tests

	packed     []packedRange
	again      bool // one of them has to be checked again
	fields     []packedField
	first, end uint64 // keys of mids from Lo to Hi
	vectors    filterVectors
}

// packedField is a wanted column as it is in the word of an item: see appendBucket.
type packedField struct {
	shift  uint8
	over   bool   // a value of all ones is in the overflow table
	mask   uint64 // 0 where the table lacks the column
	preset uint64 // where it lacks it, else 0
}

// packedRange is a Range on the packed values of a column: from lo to lo+width. Values in the overflow table all look
// like the mark, so an item with the mark is looked at again.
type packedRange struct {
	lo, width, mask uint64
	off             [slotsPerBucket]uintptr // in the bucket, by slot
	shift           [slotsPerBucket]uint8
	column          int
	again           bool // a packed value that matches must be checked again
}

// pack makes r a packedRange, and tells whether an item can meet it.
func (x *items) pack(r *Range) (p packedRange, any bool) {
	col := x.column(r.Column)
	limit := x.limit(r.Column)
	lo, hi := r.Lo, min(r.Hi, limit)
	if mark := col.mark(); col.plain != 0 {
		p.again = hi >= mark && (hi < limit || lo > mark) // else all values that are marks meet it
		lo, hi = min(lo, mark), min(hi, mark)
	}
	p.again = p.again || len(r.Not) > 0
	p.column, p.lo, p.width, p.mask = r.Column, lo, hi-lo, col.mask()
	for s := range p.off {
		bit := uint(s)*uint(x.width) + uint(col.off)
		p.off[s], p.shift[s] = headerBytes+uintptr(bit>>3), uint8(bit&7)
	}
	return p, r.Lo <= r.Hi && lo <= hi
}

// holds tells whether the item at s meets r. It reads the value from the overflow table if it is there.
func (r *Range) holds(x *items, s Ref) bool {
	v := x.get(s, r.Column)
	return v-r.Lo <= r.Hi-r.Lo && (len(r.Not) == 0 || !slices.Contains(r.Not, v))
}

// Buckets is how many buckets the table has. Select goes over them.
func (t *Table) Buckets() int { return int(t.geo.m) }

// Rare tells whether only items of the overflow table can meet the conditions: then Select of no bucket but the first
// finds any, and takes no longer than a look at that table. It holds for most conditions that few items meet.
func (t *Table) Rare(q *Selection) bool { return q.rare(t) >= 0 }

// rare returns the number of a range whose values are all in the overflow table, or -1.
func (q *Selection) rare(t *Table) int {
	if t.items.over.capacity() > t.Slots()/4 {
		return -1
	}
	return slices.IndexFunc(q.Ranges, func(r Range) bool { return r.Lo >= t.items.column(r.Column).mark() })
}

// Select appends the items in buckets from from on, below to, that q means: mid (0 if it is not wanted) and values of
// each. All buckets together hold each item once. An item stays in its bucket as long as it is there.
//
// It takes about 1 ns a slot where few items are found, 20 to 30 ns an item found.
func (t *Table) Select(dst []uint64, from, to int, q *Selection) []uint64 {
	if t.n == 0 || !q.prepare(t) {
		return dst
	}
	all := q.Lo <= t.lo && q.Hi >= t.hi-1
	words := q.inWords(t)
	if i := q.rare(t); i >= 0 {
		if from == 0 {
			dst = q.appendRare(dst, t, i, all)
		}
		return dst
	}
	var found [filterBuckets]uint8
	for ; from < to; from += filterBuckets {
		for i, hits := range found[:q.filter(t, from, to, &found)] {
			b := from + i
			if words && hits != 0 {
				dst = q.appendBucket(dst, t, uint64(b), uint64(hits), all)
				continue
			}
			for ; hits != 0; hits &= hits - 1 {
				dst = q.appendIf(dst, t, Ref(b<<3+bits.TrailingZeros8(hits)), all)
			}
		}
	}
	return dst
}

// prepare makes the conditions ready for t, and tells whether an item can meet them.
func (q *Selection) prepare(t *Table) bool {
	q.packed, q.again = q.packed[:0], false
	for i := range q.Ranges {
		p, any := t.items.pack(&q.Ranges[i])
		if !any {
			return false
		}
		q.packed, q.again = append(q.packed, p), q.again || p.again
	}
	q.first, q.end = t.geo.keys(q.Lo, q.Hi)
	return true
}

// filterBuckets is how many buckets filter looks at.
const filterBuckets = 64

// filter sets, for each bucket from from on and below to, filterBuckets at most, the bits of the items whose packed values look right. It
// returns how many buckets these are. It looks at all of them for one condition after the other.
func (q *Selection) filter(t *Table, from, to int, hits *[filterBuckets]uint8) int {
	n := min(to-from, filterBuckets)
	x := &t.items
	base, stride := x.base, uintptr(x.stride)
	begin := x.at(uint64(from))
	if len(q.packed) > 0 && !q.Plain && x.width <= vectorWidth && hasVectors() {
		q.filterVectors(x, unsafe.Add(base, begin), hits[:n])
		return n
	}
	for i, off := 0, begin; i < n; i, off = i+1, off+stride {
		hits[i&(filterBuckets-1)] = uint8(usedBits(load64(base, off)) | usedBits(load64(base, off+8))<<4)
	}
	for k := range q.packed {
		p := &q.packed[k]
		if x.column(p.column).width > 57 {
			for i := range hits[:n] {
				hits[i] &^= uint8(x.missesWide(from+i, p))
			}
			continue
		}
		for i, off := 0, begin; i < n; i, off = i+1, off+stride {
			if k == 0 || hits[i&(filterBuckets-1)] != 0 { // nearly all buckets have items
				hits[i&(filterBuckets-1)] &^= uint8(x.misses(off, p))
			}
		}
	}
	return n
}

// filterVectors is filter by vector instructions: of the buckets from first on.
func (q *Selection) filterVectors(x *items, first unsafe.Pointer, hits []uint8) {
	for i := range hits {
		hits[i] = 1<<slotsPerBucket - 1
	}
	for k := range q.packed {
		x.setFilter(&q.vectors, &q.packed[k])
		filterVector(&q.vectors, first, len(hits), &hits[0])
	}
}

// usedBits returns a bit for each of the four lanes of w that is used.
func usedBits(w uint64) uint64 {
	x := ^match(w, 0) & ^uint64(laneLow) >> 15 // bits 0, 16, 32, 48
	// Bit 16i moves to 48+i; no two of the other products meet, so nothing is carried.
	return x * (1<<48 | 1<<33 | 1<<18 | 1<<3) >> 48 & 0xf
}

// misses returns a bit for each slot of the bucket at off whose packed value is not in p. It has no branch that depends
// on the values. Written out it takes half of the time that a loop does.
func (x *items) misses(off uintptr, p *packedRange) uint64 {
	b := unsafe.Add(x.base, off)
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
func (x *items) missesWide(b int, p *packedRange) (m uint64) {
	col := x.column(p.column)
	for s := range Ref(slotsPerBucket) {
		if v := x.packed(Ref(b)<<3+s, col); v-p.lo > p.width {
			m |= 1 << s
		}
	}
	return m
}

// appendRare is Select of all buckets where range number i is met by values of the overflow table only.
func (q *Selection) appendRare(dst []uint64, t *Table, i int, all bool) []uint64 {
	if t.items.over.n == 0 {
		return dst
	}
	r := &q.Ranges[i]
	columns := uint64(t.items.count)
	for place := range t.items.over.capacity() {
		key, v, used := t.items.over.at(place)
		if !used || v < r.Lo || v > r.Hi || key%columns != uint64(r.Column) {
			continue
		}
		ref, ok := Ref(key/columns), true
		for k := range q.Ranges {
			if ok = q.Ranges[k].holds(&t.items, ref); !ok {
				break
			}
		}
		if ok {
			dst = q.appendRow(dst, t, ref, all)
		}
	}
	return dst
}

// inWords makes fields of the columns, if an item of t with its whole quotient is in the 8 bytes that begin where it does.
func (q *Selection) inWords(t *Table) bool {
	q.fields = q.fields[:0]
	if t.items.width > 57 {
		return false
	}
	for i, c := range q.Columns {
		if c < 0 {
			q.fields = append(q.fields, packedField{preset: q.Defaults[i]})
			continue
		}
		col := t.items.column(c)
		q.fields = append(q.fields, packedField{shift: uint8(col.off), over: col.plain != 0, mask: col.mask()})
	}
	return true
}

// appendBucket appends the items of bucket b, those with a bit in hits, if the selection means them. Each is read as one word:
//
//	bit   0         rest       off(c)
//	word  | rest of | ...      | column c | ... | the next item, or the next bucket
//	      | quotient|          |          |
//
// REQUIRES inWords.
func (q *Selection) appendBucket(dst []uint64, t *Table, b, hits uint64, all bool) []uint64 {
	x, g := &t.items, &t.geo
	w := 1 + len(q.fields)
	if cap(dst)-len(dst) < slotsPerBucket*w {
		dst = slices.Grow(dst, slotsPerBucket*w)
	}
	off := x.at(b)
	lanes := [2]uint64{load64(x.base, off), load64(x.base, off+8)}
	restMask := uint64(1)<<(g.rest&63) - 1
	for ; hits != 0; hits &= hits - 1 {
		s := uint(bits.TrailingZeros64(hits)) & 7
		if q.again && !q.holds(x, Ref(b<<3)+Ref(s)) {
			continue
		}
		bit := s * uint(x.width)
		word := load64(x.base, off+headerBytes+uintptr(bit>>3)) >> (bit & 7)
		n := len(dst)
		row := dst[n : n+w]
		row[0] = 0
		if !all || !q.NoMids {
			lane := lanes[s>>2] >> (s & 3 << 4) & 0xffff
			key := g.key(b, lane>>probeBits|word&restMask<<quoBits, uint(lane&(1<<probeBits-1))-1)
			if key < q.first || key >= q.end {
				continue
			}
			if row[0] = key; g.oneGroup {
				row[0] = slot.Post(g.group, key)
			}
		}
		for i := range q.fields {
			f := &q.fields[i]
			v := word >> (f.shift & 63) & f.mask
			if f.over && v == f.mask {
				v = x.over.get(x.overKey(Ref(b<<3)+Ref(s), q.Columns[i]))
			}
			row[1+i] = v | f.preset
		}
		dst = dst[:n+w]
	}
	return dst
}

// holds tells whether the item at s, whose packed values look right, meets the ranges.
func (q *Selection) holds(x *items, s Ref) bool {
	for i := range q.packed {
		if q.packed[i].again && !q.Ranges[i].holds(x, s) {
			return false
		}
	}
	return true
}

// appendIf appends the item at s, whose packed values look right, if the selection means it.
func (q *Selection) appendIf(dst []uint64, t *Table, s Ref, all bool) []uint64 {
	if q.again && !q.holds(&t.items, s) {
		return dst
	}
	return q.appendRow(dst, t, s, all)
}

// appendRow appends the item at s if its mid is in the range. all says that the mids of all items are.
func (q *Selection) appendRow(dst []uint64, t *Table, s Ref, all bool) []uint64 {
	mid := uint64(0)
	if !all || !q.NoMids {
		key := t.geo.key(t.lane(s))
		if key < q.first || key >= q.end {
			return dst
		}
		if mid = key; t.geo.oneGroup {
			mid = slot.Post(t.geo.group, key)
		}
	}
	dst = append(dst, mid)
	if t.items.oneWord {
		bit := uint(s&7)*uint(t.items.width) + uint(t.geo.rest)
		word := load64(t.items.base, t.items.at(uint64(s>>3))+headerBytes+uintptr(bit>>3)) >> (bit & 7)
		for i, c := range q.Columns {
			if c < 0 {
				dst = append(dst, q.Defaults[i])
				continue
			}
			col := t.items.column(c)
			v := word >> ((col.off - uint16(t.geo.rest)) & 63) & col.mask()
			if v == col.mark() {
				v = t.items.over.get(t.items.overKey(s, c))
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
