package hot

import (
	"slices"
	"unsafe"

	"github.com/counterd/counterd/schema"
)

// column is a schema.Field made ready for the hot path, and small: see Table.
type column struct {
	off   uint16 // bit in the item, quotient rest included
	width uint8  // packed bits, 1 to 64
	plain uint8  // 64 less the width where values may be in the overflow table, else 0
}

// mask has as many ones as the column has bits.
func (c *column) mask() uint64 { return ^uint64(0) >> ((64 - c.width) & 63) }

// mark is the all-ones pattern that points to the overflow table; ^0 when the column has none.
func (c *column) mark() uint64 { return ^uint64(0) >> (c.plain & 63) }

// nearColumns is how many columns share a cache line with the other fields that a change of a value needs.
const nearColumns = 6

// items is the memory that holds the columns of a table's items: it knows places and bits, and no mids. A place that holds
// no item has any bits. Which places are used, and by what mid, is in the lanes, which only Table reads and writes.
//
// Invariant: each column of each item is at most its limit, and the overflow table has an entry exactly for each mark.
//
// The fields up to rest end the first cache line of a table, those up to over are the second (TestTableLines).
type items struct {
	base    unsafe.Pointer // data[0]
	stride  uint16         // bytes of a bucket
	width   uint16         // bits of an item in its bucket: W of the package comment
	count   uint8          // columns
	oneWord bool           // the columns of an item are near, and in the 8 bytes that begin where the first does
	rest    uint8          // bits of an item in front of its columns: the rest of the quotient
	blank   bool           // all presets are 0
	_       [8]byte        // so that near begins a line

	near [nearColumns]column
	over overflow

	far    []column // columns from nearColumns on
	layout *schema.Layout
}

// init lays the items of c out in mem. Each has rest bits of its quotient in front of its columns.
func (x *items) init(c *Config, rest uint8, mem []byte) {
	x.base, x.layout, x.rest = unsafe.Pointer(&mem[0]), c.Layout, rest
	x.width = uint16(rest) + uint16(c.Layout.Bits)
	x.stride = headerBytes + x.width
	x.count = uint8(len(c.Layout.Fields))
	x.oneWord = c.Layout.Bits <= 57 && x.count <= nearColumns
	if x.count > nearColumns {
		x.far = make([]column, x.count-nearColumns)
	}
	x.blank = true
	for i := range c.Layout.Fields {
		f := &c.Layout.Fields[i]
		x.blank = x.blank && f.Default == 0
		col := x.column(i)
		*col = column{off: uint16(rest) + uint16(f.Off), width: f.Width}
		if f.Overflows() {
			col.plain = 64 - f.Width
		}
	}
	x.over.wide = c.wide()
	if c.Overflow > 0 {
		x.over.room = int32(c.Overflow)
		x.over.words = words(mem[c.overflowAt():], overflowPlaces(c.Overflow)*x.over.width())
	}
}

// column returns column c, an index into Layout.
func (x *items) column(c int) *column {
	if uint(c) < nearColumns {
		return &x.near[c]
	}
	return &x.far[c-nearColumns]
}

// at is where a bucket begins.
func (x *items) at(bucket uint64) uintptr { return uintptr(bucket) * uintptr(x.stride) }

// packed returns the bits of a column of the item at s: its value, or the mark.
func (x *items) packed(s Ref, col *column) uint64 {
	return loadBits(x.base, x.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(x.width)+uint(col.off), uint(col.width))
}

// restAt is the rest of the quotient of the item at place s of the bucket that begins at off. REQUIRES rest > 0. A rest has 52 bits at most, as mids have 63: it
// is in the 8 bytes that begin where it does.
func (x *items) restAt(off uintptr, s uint) uint64 {
	bit := s * uint(x.width)
	return load64(x.base, off+headerBytes+uintptr(bit>>3)) >> (bit & 7) & (1<<(x.rest&63) - 1)
}

// overKey is the key of a value in the overflow table.
func (x *items) overKey(s Ref, c int) uint64 { return uint64(s)*uint64(x.count) + uint64(c) }

// get returns column c (an index into Layout) of the item at s.
func (x *items) get(s Ref, c int) uint64 {
	col := x.column(c)
	v := x.packed(s, col)
	if v == col.mark() {
		return x.over.get(x.overKey(s, c))
	}
	return v
}

// unpack puts the columns of the item at place s of the bucket that begins at off into row, which has a place for each. marked: some of them are marks
// of the overflow table. REQUIRES x.oneWord.
func (x *items) unpack(row []uint64, off uintptr, s uint) (marked bool) {
	bit := s*uint(x.width) + uint(x.rest)
	w := load64(x.base, off+headerBytes+uintptr(bit>>3)) >> (bit & 7)
	near := x.near[:len(row)]
	for c := range near {
		col := &near[c]
		mask := col.mask()
		v := w & mask
		if v == mask && col.plain != 0 {
			marked = true
		}
		w >>= col.width & 63
		row[c] = v
	}
	return marked
}

// appendRow appends all columns of the item at s, in the order of Layout.
func (x *items) appendRow(dst []uint64, s Ref) []uint64 {
	off := x.at(uint64(s>>3)) + headerBytes
	bit := uint(s&7) * uint(x.width)
	if x.oneWord {
		bit += uint(x.rest)
		w := load64(x.base, off+uintptr(bit>>3)) >> (bit & 7)
		n := len(dst)
		if cap(dst)-n < nearColumns {
			dst = slices.Grow(dst, nearColumns)
		}
		dst = dst[:n+int(x.count)]
		marked := false
		for c, row := 0, dst[n:]; c < len(row); c++ {
			col := &x.near[c]
			mask := col.mask()
			v := w & mask
			if v == mask && col.plain != 0 {
				marked = true
			}
			w >>= col.width & 63
			row[c] = v
		}
		if marked {
			x.unmark(dst[n:], s)
		}
		return dst
	}
	for c := range int(x.count) {
		col := x.column(c)
		v := loadBits(x.base, off, bit+uint(col.off), uint(col.width))
		if v == col.mark() {
			v = x.over.get(x.overKey(s, c))
		}
		dst = append(dst, v)
	}
	return dst
}

// copyPacked gives the item at s the bits of the item at from of y, whose layout is the same. Where a bit pattern is a mark, the value is not copied.
func (x *items) copyPacked(s Ref, y *items, from Ref) {
	to, is := x.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(x.width)+uint(x.rest)
	at, was := y.at(uint64(from>>3))+headerBytes, uint(from&7)*uint(y.width)+uint(y.rest)
	for done, all := uint(0), uint(x.layout.Bits); done < all; done += 64 {
		n := min(all-done, 64)
		storeBits(x.base, to, is+done, n, loadBits(y.base, at, was+done, n))
	}
}

// nonzero tells which of up to 64 columns from first on are not 0 in the item at s, a bit for each. It looks at several in a word, as most are 0
// where it is asked for.
func (x *items) nonzero(s Ref, first, columns int) (set uint64) {
	off := x.at(uint64(s>>3)) + headerBytes
	item := uint(s&7) * uint(x.width)
	for c, end := first, first+columns; c < end; {
		bit := item + uint(x.column(c).off)
		w := load64(x.base, off+uintptr(bit>>3)) >> (bit & 7)
		for room := 64 - bit&7; c < end; c++ {
			col := x.column(c)
			width := uint(col.width)
			if width > room {
				if room == 64-bit&7 { // wider than a word
					if x.packed(s, col) != 0 {
						set |= 1 << (c - first)
					}
					c++
				}
				break
			}
			if w&col.mask() != 0 {
				set |= 1 << (c - first)
			}
			w >>= width & 63
			room -= width
		}
	}
	return set
}

// unmark puts the values of the overflow table in the place of the marks in the row of the item at s.
func (x *items) unmark(row []uint64, s Ref) {
	for c := range row {
		if row[c] == x.near[c].mark() {
			row[c] = x.over.get(x.overKey(s, c))
		}
	}
}

// limit is the largest value of column c.
func (x *items) limit(c int) uint64 { return x.layout.Fields[c].Limit() }

// preset is the value of column c of an item where it was never set.
func (x *items) preset(c int) uint64 { return x.layout.Fields[c].Default }

// set stores v, at most limit(c), in column c of the item at s.
func (x *items) set(s Ref, c int, v uint64) {
	col := x.column(c)
	if col.plain != 0 {
		if mark := col.mark(); v >= mark {
			x.over.set(x.overKey(s, c), v)
			v = mark
		} else if x.over.n != 0 && x.packed(s, col) == mark {
			x.over.delete(x.overKey(s, c))
		}
	}
	storeBits(x.base, x.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(x.width)+uint(col.off), uint(col.width), v)
}

// Added returns v + n, and whether it is in [0, limit]. limit is at most 2^63-1.
func Added(v uint64, n int64, limit uint64) (uint64, bool) {
	if n < 0 {
		less := uint64(-(n + 1)) + 1 // -n, also for -2^63
		if less > v {
			return 0, false
		}
		return v - less, true
	}
	if uint64(n) > limit || v > limit-uint64(n) {
		return 0, false
	}
	return v + uint64(n), true
}

// add is Table.Add. Where the column is in one word and neither value is in the overflow table, the item is found once for both.
func (x *items) add(s Ref, c int, n int64, limit uint64) (old, sum uint64, ok bool) {
	col := x.column(c)
	bit := uint(s&7)*uint(x.width) + uint(col.off)
	off := x.at(uint64(s>>3)) + headerBytes + uintptr(bit>>3)
	bit &= 7
	w := load64(x.base, off)
	mask := col.mask()
	old = w >> bit & mask
	sum, ok = Added(old, n, limit)
	if bit+uint(col.width) <= 64 && (col.plain == 0 || old != mask && sum < mask) {
		if ok {
			store64(x.base, off, w&^(mask<<bit)|sum<<bit)
		}
		return old, sum, ok
	}
	return x.addFar(s, c, n, limit)
}

// addFar is add for a column in two words, and for values in the overflow table. A value that stays there is looked for once.
func (x *items) addFar(s Ref, c int, n int64, limit uint64) (old, sum uint64, ok bool) {
	col := x.column(c)
	if old = x.packed(s, col); old == col.mark() {
		key := x.overKey(s, c)
		if sum, ok = x.over.add(key, n, old, limit); ok {
			return sum - uint64(n), sum, true
		}
		old = x.over.get(key)
	}
	if sum, ok = Added(old, n, limit); ok {
		x.set(s, c, sum)
	}
	return old, sum, ok
}

// addIf is the function AddIf. The item is found once for both columns.
func (x *items) addIf(s Ref, k int, v uint64, c int, n int64, limit uint64) (sum uint64, ok bool) {
	off, item := x.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(x.width)
	key, col := x.column(k), x.column(c)
	if loadBits(x.base, off, item+uint(key.off), uint(key.width)) != v {
		return 0, false
	}
	bit, mark := item+uint(col.off), col.mark()
	old := loadBits(x.base, off, bit, uint(col.width))
	if old == mark {
		if sum, ok = x.over.add(x.overKey(s, c), n, mark, limit); ok {
			return sum, true
		}
	} else if sum, ok = Added(old, n, limit); ok && sum < mark {
		storeBits(x.base, off, bit, uint(col.width), sum)
		return sum, true
	}
	_, sum, ok = x.addFar(s, c, n, limit)
	return sum, ok
}

// most returns a value that no item exceeds in column c: the largest, or the largest that the column's width has room for.
func (x *items) most(c int) uint64 {
	col := x.column(c)
	if col.plain == 0 {
		return x.limit(c)
	}
	most, columns := col.mark()-1, uint64(x.count)
	if x.over.n == 0 {
		return most
	}
	for place := range x.over.capacity() {
		if key, v, used := x.over.at(place); used && v > most && key%columns == uint64(c) {
			most = v
		}
	}
	return most
}

// reset gives all columns of the item at s, which is new, their presets.
func (x *items) reset(s Ref) {
	if x.blank {
		off, bit := x.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(x.width)+uint(x.rest)
		for n, end := uint(0), bit+uint(x.layout.Bits); bit < end; bit += n {
			n = min(end-bit, 64)
			storeBits(x.base, off, bit, n, 0)
		}
		return
	}
	for c := range int(x.count) {
		x.set(s, c, x.preset(c))
	}
}

// forget removes what the overflow table has of the item at s, which is about to be deleted.
func (x *items) forget(s Ref) {
	for c := range int(x.count) {
		if col := x.column(c); col.plain != 0 && x.packed(s, col) == col.mark() {
			x.over.delete(x.overKey(s, c))
		}
	}
}
