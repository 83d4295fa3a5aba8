package page

import (
	"encoding/binary"
	"math/bits"
)

// A ladder holds the n values of one column of one page, each readable without the others. A value stops on the
// first level that has room for it; level k has room for the 2^w[k] values from base[k] on, and
// base[k+1] = base[k] + 2^w[k]. The set more[k] says which of the n[k] values that reached level k go on.
//
//	+-----------+---------------+---------+------------------------+-----
//	| levels u8 | base uvarint  | level 0 | level 1 (more[0] ones)  | ...
//	+-----------+---------------+---------+------------------------+-----
//	level k:  | w u8 | more: bitset of n[k] (not on the last level) | n[k]-n[k+1] fields of w bits |
//
// It is the one encoding of columns, for its special cases are the usual ones: one level of width 0 is a
// constant, one level is bit-packed, two are bit-packed with exceptions, a first level of width 0 is a list of the
// values that are not the least. The planner takes the widths that give the fewest bytes. (The idea is that
// of directly addressable codes, Brisaboa, Ladra and Navarro, with a free width on each level and sparse sets.)
//
// The package comment has the measurements beside huff0, FSE and zstd, which it beats.
const maxLevels = 6

// LadderPlan says how a tally's values are encoded.
type LadderPlan struct {
	base   uint64
	levels int
	w      [maxLevels]uint8
	size   int // bytes
}

// planner finds the widths of a ladder that take the fewest bytes, by dynamic programming over the lower end of a
// level.
//
// Lower ends are offsets from the least value, rounded down to a grid: 0..15, then 2^j-1. So the search is bounded
// by the grid, 76 points of at most 64 widths; an exact one took seconds a page on values of all magnitudes. It
// does not count levels: beyond the limit the last one takes all that is left. Counting them saves 0.03 bytes a row
// of 3.65 on the Reddit posts and nothing on Weibo's, for a third more time to write.
type planner struct {
	t     *tally
	most  uint64 // largest offset
	start [gridSize]int32
	memo  [gridSize]struct {
		size int32 // bytes from a level that begins here on, 0: not known
		w    uint8
		last bool // no level follows
	}
}

const (
	gridFine = 16
	gridSize = gridFine + 60
)

// grid returns the offset of grid point g, and gridFloor the last point not above an offset.
func grid(g int) uint64 {
	if g < gridFine {
		return uint64(g)
	}
	return 1<<(g-gridFine+5) - 1
}

func gridFloor(off uint64) int {
	if off < 31 {
		return int(min(off, gridFine-1))
	}
	j := bits.Len64(off)
	if off != Mask(uint(j)) { // not 2^j-1 itself
		j--
	}
	return j - 5 + gridFine
}

func (pl *planner) plan(t *tally) LadderPlan {
	p := LadderPlan{base: t.val[0]}
	pl.t, pl.most = t, t.val[len(t.val)-1]-p.base
	points := 1 + gridFloor(pl.most)
	for g, from := 0, 0; g < points; g++ {
		from = t.lowerBound(from, p.base+grid(g))
		pl.start[g] = int32(from)
	}
	clear(pl.memo[:points])
	// Follow the widths chosen, now with the true ends; these may lie on grid points that the search did not come by.
	p.size = 1 + uvarintLen(p.base)
	off, g := uint64(0), 0
	for a := 0; ; p.levels++ {
		pl.best(g)
		m := &pl.memo[g]
		n := int(t.below[len(t.val)] - t.below[a])
		w := uint(m.w)
		next := off + 1<<w
		if m.last || p.levels == maxLevels-1 || next > pl.most || next < off { // nothing for another level, or none left
			w = uint(bits.Len64(pl.most - off))
			p.w[p.levels] = uint8(w)
			p.size += 1 + bytesFor(n*int(w))
			p.levels++
			return p
		}
		p.w[p.levels] = uint8(w)
		off = next
		a = t.lowerBound(a, p.base+off)
		more := int(t.below[len(t.val)] - t.below[a])
		p.size += 1 + bytesFor((n-more)*int(w)) + BitsetSize(n, more)
		g = gridFloor(off)
	}
}

// best returns the bytes of the cheapest ladder for the values from grid point g on, of which there is one at least.
func (pl *planner) best(g int) int32 {
	m := &pl.memo[g]
	if m.size > 0 {
		return m.size
	}
	t, off, a := pl.t, grid(g), int(pl.start[g])
	d := len(t.val)
	n := int(t.below[d] - t.below[a])
	last := uint(bits.Len64(pl.most - off))
	size, width, end := 1+bytesFor(n*int(last)), last, true
	b := a
	for w := range last { // 2^w <= most-off: at least one value goes on, and nothing overflows
		next := off + 1<<w
		b = t.lowerBound(b, t.val[0]+next)
		stop := int(t.below[b] - t.below[a])
		// A level that stops next to nothing does not pay; it would cost the search much on 64-bit values.
		if stop*16 < n {
			continue
		}
		c := 1 + bytesFor(stop*int(w))
		land := gridFloor(next)
		if c >= size || land == g { // too narrow to reach the next grid point
			continue
		}
		if c += BitsetSize(n, n-stop); c >= size {
			continue
		}
		if c += int(pl.best(land)); c < size {
			size, width, end = c, w, false
		}
	}
	m.size, m.w, m.last = int32(size), uint8(width), end
	return m.size
}

// resize is p for other values, with the same widths as far as they fit: about as good where the values are nearly the
// same.
func (p *LadderPlan) resize(t *tally) LadderPlan {
	q := LadderPlan{base: t.val[0]}
	most, all := t.val[len(t.val)-1]-q.base, int(t.below[len(t.val)])
	q.size = 1 + uvarintLen(q.base)
	off, a := uint64(0), 0
	for {
		n := all - int(t.below[a])
		w := uint(p.w[q.levels])
		next := off + 1<<w
		if q.levels == p.levels-1 || next > most || next < off {
			w = uint(bits.Len64(most - off))
			q.w[q.levels] = uint8(w)
			q.size += 1 + bytesFor(n*int(w))
			q.levels++
			return q
		}
		q.w[q.levels] = uint8(w)
		off = next
		a = t.lowerBound(a, q.base+off)
		more := all - int(t.below[a])
		q.size += 1 + bytesFor((n-more)*int(w)) + BitsetSize(n, more)
		q.levels++
	}
}

// appendLadder appends the values v by plan p. v is scratch afterwards, and so are pos and fields.
func appendLadder(dst []byte, p *LadderPlan, v []uint64, pos []int32, fields []uint64) ([]byte, []int32, []uint64) {
	dst = append(dst, byte(p.levels))
	dst = binary.AppendUvarint(dst, p.base)
	base := p.base
	for k := range p.levels {
		w := uint(p.w[k])
		dst = append(dst, byte(w))
		fields = fields[:0]
		if k == p.levels-1 {
			for _, x := range v {
				fields = append(fields, x-base)
			}
		} else {
			pos = pos[:0]
			more, end := v[:0], uint64(1)<<w
			for i, x := range v {
				if x-base >= end {
					pos, more = append(pos, int32(i)), append(more, x)
				} else {
					fields = append(fields, x-base)
				}
			}
			dst = appendBitset(dst, len(v), pos)
			v = more
			base += end
		}
		dst = appendFields(dst, fields, w)
	}
	return dst, pos, fields
}

// LadderGet returns value i of the n (0 <= i < n) of the ladder in front of c. A damaged ladder sets c.bad.
func LadderGet(c *Cutter, n, i int) uint64 {
	levels := c.U8()
	base := c.Uvarint()
	if levels < 1 || levels > maxLevels {
		c.Bad = true
	}
	return ladderFrom(c, levels, base, n, i)
}

// ladderFrom is LadderGet for the last levels of a ladder, c standing in front of the first of them, and the n values
// that reach it.
func ladderFrom(c *Cutter, levels uint, base uint64, n, i int) uint64 {
	var more bitset
	for ; !c.Bad; levels-- {
		w := c.U8()
		if w > 64 {
			break
		}
		if levels == 1 {
			at := c.Bits(n, w)
			if c.Bad {
				break
			}
			return base + Load(c.B, at*8+i*int(w), w)
		}
		more.parse(c, n)
		if c.Bad {
			break
		}
		m := int(more.m)
		r, in := more.rank(c.B, i)
		at := c.Bits(n-m, w)
		if !in {
			if i -= r; c.Bad || i >= n-m {
				break
			}
			return base + Load(c.B, at*8+i*int(w), w)
		}
		if n, i = m, r; i >= n {
			break
		}
		base += 1 << w
	}
	c.Bad = true
	return 0
}

// firstLevel is the first level of a ladder, which 80-95 % of the values of real posts do not leave, parsed. It is
// small, as it is kept for the first columns of each cached page.
type firstLevel struct {
	base   uint64
	levels uint8  // of the ladder
	w      uint8  // bits a value
	l      uint8  // of the Elias-Fano of more, or bitsetPlain
	m      uint16 // values that go on
	set    uint16 // byte offset of more's bits, or of low if sparse
	high   uint16 // byte offset of more's high
	at     uint16 // byte offset of the values
	next   uint16 // byte offset of the second level
}

// Parse takes the first level of the ladder of n values off c. A damaged one sets c.bad.
func (f *firstLevel) parse(c *Cutter, n int) {
	f.levels = uint8(c.U8())
	f.base = c.Uvarint()
	w := c.U8()
	if f.levels < 1 || f.levels > maxLevels || w > 64 {
		c.Bad = true
		return
	}
	f.w, f.m = uint8(w), 0
	if f.levels > 1 {
		var more bitset
		if more.parse(c, n); c.Bad {
			return
		}
		f.m, f.l, f.set, f.high = uint16(more.m), more.ef.l, uint16(more.ef.low), uint16(more.ef.high)
		if more.plain != 0 {
			f.l, f.set = bitsetPlain, uint16(more.plain)
		}
	}
	f.at = uint16(c.Bits(n-int(f.m), w))
	f.next = uint16(c.Pos)
}

// Get is LadderGet for the ladder that f was parsed from. c is anywhere in the page.
func (f *firstLevel) get(c *Cutter, n, i int) uint64 {
	w := uint(f.w)
	if f.levels > 1 {
		m := int(f.m)
		more := bitset{n: int32(n), m: int32(m)}
		if f.l == bitsetPlain {
			more.plain = int32(f.set)
		} else {
			more.ef = eliasFano{n: int32(m), low: int32(f.set), high: int32(f.high), hbits: int32(m + (n-1)>>(f.l&63)), l: f.l}
		}
		r, in := more.rank(c.B, i)
		if in {
			if c.Pos = int(f.next); r >= m {
				c.Bad = true
				return 0
			}
			return ladderFrom(c, uint(f.levels)-1, f.base+1<<w, m, r)
		}
		if i -= r; i >= n-m {
			c.Bad = true
			return 0
		}
	}
	return f.base + Load(c.B, int(f.at)*8+i*int(w), w)
}

// Touch asks the processor for the cache lines that get of about i of n values will read.
func (f *firstLevel) touch(b []byte, n, i int) {
	if f.levels > 1 {
		if f.l == bitsetPlain {
			prefetch(b, int(f.set)+i>>4) // half of the bits are counted
		} else {
			prefetch(b, int(f.high))
			prefetch(b, max(int(f.set)+(i*int(f.m)/n)*int(f.l)>>3-32, 0))
		}
	}
	if f.w > 0 {
		prefetch(b, int(f.at)+i*int(f.w)>>3)
	}
}

// ladderCursor walks the values of a ladder in order.
type ladderCursor struct {
	levels int
	level  [maxLevels]ladderLevel
}

type ladderLevel struct {
	base uint64
	w    uint
	more bitset
	cur  bitsetCursor
	n    int // values that reach this level
	bit  int // next field
	end  int // behind the last field
	i    int // values taken
}

// Init takes the ladder of n values off c. A damaged one sets c.bad.
func (lc *ladderCursor) init(c *Cutter, n int) {
	lc.levels = int(c.U8())
	base := c.Uvarint()
	if lc.levels < 1 || lc.levels > maxLevels {
		c.Bad = true
	}
	for k := 0; k < lc.levels && !c.Bad; k++ {
		l := &lc.level[k]
		l.base, l.w, l.n, l.i = base, c.U8(), n, 0
		if l.w > 64 {
			c.Bad = true
			return
		}
		m := 0
		if k < lc.levels-1 {
			l.more.parse(c, n)
			if c.Bad {
				return
			}
			m = int(l.more.m)
			l.cur.init(&l.more, c.B)
		}
		l.bit = c.Bits(n-m, l.w) * 8
		l.end = l.bit + (n-m)*int(l.w)
		base += 1 << l.w
		n = m
	}
}

// Next returns the next value. ok is false when the levels contradict each other.
func (lc *ladderCursor) next(b []byte) (v uint64, ok bool) {
	for k := range lc.levels {
		l := &lc.level[k]
		if l.i >= l.n {
			return 0, false
		}
		l.i++
		if k < lc.levels-1 && l.cur.step() {
			continue
		}
		bit := l.bit
		if l.bit += int(l.w); l.bit > l.end {
			return 0, false
		}
		return l.base + Load(b, bit, l.w), true
	}
	return 0, false
}
