package coldstore

import (
	"encoding/binary"
	"math/bits"
)

// The mids part of a page: n strictly increasing ids, searchable in place. first is also in the page index; x(i) =
// (mid(i)-first)/step, step being the greatest common divisor of the gaps.
//
//	+---------+-----------+--------------+
//	| kind u8 | first u64 | step uvarint |  and then by kind
//	+---------+-----------+--------------+
//	0 stride       nothing: x(i) = i
//	1 Elias-Fano   | span uvarint = x(n-1) | Elias-Fano of x, top = span |
//	2 gaps         | least gap uvarint | w u8 | aw u8 | anchors | n-1 fields of w bits: x(i+1)-x(i)-least |
//	               anchors: (n-1)/64 fields of aw bits, x(64), x(128), ...
//
// Gaps win over Elias-Fano where the gaps are nearly equal; on ids with exponential gaps they lose by 0.7 bits.
const (
	midsStride = 0
	midsEF     = 1
	midsGaps   = 2

	gapGroup = 64 // a search in gaps adds up 32 of them on average, 30 ns
)

type midsPlan struct {
	kind  byte
	step  uint64
	least uint64 // gaps
	w, aw uint8  // gaps
	size  int    // bytes
}

func planMids(mids []uint64) midsPlan {
	n := len(mids)
	p := midsPlan{kind: midsStride, step: 1, size: 1 + 8 + 1}
	if n == 1 {
		return p
	}
	p.step = mids[1] - mids[0]
	least, most := p.step, p.step
	for i := 2; i < n; i++ {
		g := mids[i] - mids[i-1]
		least, most = min(least, g), max(most, g)
		if p.step != 1 {
			p.step = gcd(p.step, g)
		}
	}
	p.size = 1 + 8 + uvarintLen(p.step)
	if least == most {
		return p
	}
	span := (mids[n-1] - mids[0]) / p.step
	least, most = least/p.step, most/p.step
	p.least, p.w = least, uint8(bits.Len64(most-least))
	anchors := (n - 1) / gapGroup
	if anchors > 0 {
		p.aw = uint8(bits.Len64((mids[anchors*gapGroup] - mids[0]) / p.step))
	}
	ef := uvarintLen(span) + efSize(n, span)
	gaps := uvarintLen(least) + 2 + bytesFor(anchors*int(p.aw)) + bytesFor((n-1)*int(p.w))
	if ef <= gaps {
		p.kind = midsEF
		p.size += ef
	} else {
		p.kind = midsGaps
		p.size += gaps
	}
	return p
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func appendMids(dst []byte, p *midsPlan, mids []uint64) []byte {
	n := len(mids)
	x := func(i int) uint64 { return (mids[i] - mids[0]) / p.step }
	dst = append(dst, p.kind)
	dst = binary.LittleEndian.AppendUint64(dst, mids[0])
	dst = binary.AppendUvarint(dst, p.step)
	switch p.kind {
	case midsEF:
		span := x(n - 1)
		dst = binary.AppendUvarint(dst, span)
		dst = appendEF(dst, n, span, x)
	case midsGaps:
		dst = binary.AppendUvarint(dst, p.least)
		w := bitWriter{buf: append(dst, p.w, p.aw)}
		for i := gapGroup; i < n; i += gapGroup {
			w.put(x(i), uint(p.aw))
		}
		w.flush()
		for i := 1; i < n; i++ {
			w.put(x(i)-x(i-1)-p.least, uint(p.w))
		}
		dst = w.flush()
	}
	return dst
}

// midsView reads a mids part.
type midsView struct {
	kind  uint
	n     int
	first uint64
	step  uint64
	ef    eliasFano
	b     []byte
	least uint64
	w, aw uint
	anch  int // bit offset of the anchors
	gaps  int // bit offset of the gaps
}

// parse takes the part with n ids (n >= 1) off c; a damaged one sets c.bad.
func (v *midsView) parse(c *cutter, n int) {
	v.kind, v.n, v.b = c.u8(), n, c.b
	v.first, v.step = c.u64(), c.uvarint()
	if v.step == 0 {
		c.bad = true
	}
	switch v.kind {
	case midsStride:
	case midsEF:
		span := c.uvarint()
		v.ef.parse(c, n, span)
	case midsGaps:
		v.least, v.w, v.aw = c.uvarint(), c.u8(), c.u8()
		v.anch = 8 * c.bits((n-1)/gapGroup, v.aw)
		v.gaps = 8 * c.bits(n-1, v.w)
	default:
		c.bad = true
	}
}

// search returns how many ids are below mid, and whether mid is among them.
func (v *midsView) search(mid uint64) (i int, found bool) {
	if mid <= v.first {
		return 0, mid == v.first
	}
	x, exact := mid-v.first, true
	if v.step != 1 {
		q := x / v.step
		if q*v.step != x { // between two multiples: the ids below are those up to q
			exact = false
			q++
		}
		x = q
	}
	switch v.kind {
	case midsStride:
		if x >= uint64(v.n) {
			return v.n, false
		}
		return int(x), exact
	case midsEF:
		i, found = v.ef.search(x)
	default:
		i, found = v.searchGaps(x)
	}
	return i, found && exact
}

func (v *midsView) searchGaps(x uint64) (int, bool) {
	lo, hi := 0, (v.n-1)/gapGroup // anchor k is x(64k+64): find how many are <= x
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); load(v.b, v.anch+m*int(v.aw), v.aw) <= x {
			lo = m + 1
		} else {
			hi = m
		}
	}
	sum, i := uint64(0), 0
	if lo > 0 {
		sum, i = load(v.b, v.anch+(lo-1)*int(v.aw), v.aw), lo*gapGroup
	}
	for sum < x {
		if i++; i >= v.n {
			return v.n, false
		}
		sum += v.least + load(v.b, v.gaps+(i-1)*int(v.w), v.w)
	}
	return i, sum == x
}

// midsCursor walks the ids in order.
type midsCursor struct {
	v   *midsView
	ef  efCursor
	i   int
	sum uint64
}

func (c *midsCursor) init(v *midsView) {
	*c = midsCursor{v: v}
	if v.kind == midsEF {
		c.ef.init(&v.ef)
	}
}

// next returns the next id; ok is false behind the last.
func (c *midsCursor) next() (mid uint64, ok bool) {
	v := c.v
	if c.i >= v.n {
		return 0, false
	}
	x := uint64(c.i)
	switch v.kind {
	case midsEF:
		if x, ok = c.ef.next(); !ok {
			return 0, false
		}
	case midsGaps:
		if c.i > 0 {
			c.sum += v.least + load(v.b, v.gaps+(c.i-1)*int(v.w), v.w)
		}
		x = c.sum
	}
	c.i++
	return v.first + x*v.step, true
}
