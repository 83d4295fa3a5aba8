package page

import (
	"encoding/binary"
	"math/bits"

	"github.com/counterd/counterd/internal/slot"
)

// The mids part of a page: n strictly increasing ids, searchable in place. first is also in the page index; x(i) =
// (mid(i)-first)/step, step being the greatest common divisor of the gaps.
//
//	+---------+----------+-----------+--------------+
//	| kind u8 | group u8 | first u64 | step uvarint |  and then by kind
//	+---------+----------+-----------+--------------+
//	0 stride       nothing: x(i) = i
//	1 Elias-Fano   | span uvarint = x(n-1) | Elias-Fano of x, top = span |
//	2 gaps         | least gap uvarint | w u8 | aw u8 | anchors | n-1 fields of w bits: x(i+1)-x(i)-least |
//	               anchors: (n-1)/64 fields of aw bits, x(64), x(128), ...
//
// Kinds from 4 on are the same, of ids that are all of one group of hash slots: instead of them there are their numbers
// among those of the group (slot.Number), 7.7 bits less each. Only these have the group.
//
// Gaps win over Elias-Fano where the gaps are nearly equal; on ids with exponential gaps they lose by 0.7 bits.
const (
	midsStride = 0
	MidsEF     = 1
	midsGaps   = 2
	MidsGroup  = 4 // more, in the kinds of a group

	gapGroup = 64 // a search in gaps adds up 32 of them on average, 30 ns
)

type midsPlan struct {
	kind  byte
	step  uint64
	least uint64 // gaps
	w, aw uint8  // gaps
	Size  int    // bytes
}

func planMids(mids []uint64) midsPlan {
	n := len(mids)
	p := midsPlan{kind: midsStride, step: 1, Size: 1 + 8 + 1}
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
	p.Size = 1 + 8 + uvarintLen(p.step)
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
		p.kind = MidsEF
		p.Size += ef
	} else {
		p.kind = midsGaps
		p.Size += gaps
	}
	return p
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// appendMids appends the part of ids, or of numbers in a group. scratch has room for as many, or is nil.
func appendMids(dst []byte, p *midsPlan, mids []uint64, oneGroup bool, group uint8, scratch []uint64) []byte {
	n := len(mids)
	x := func(i int) uint64 { return (mids[i] - mids[0]) / p.step }
	if oneGroup {
		dst = append(dst, p.kind+MidsGroup, group)
	} else {
		dst = append(dst, p.kind)
	}
	dst = binary.LittleEndian.AppendUint64(dst, mids[0])
	dst = binary.AppendUvarint(dst, p.step)
	switch p.kind {
	case MidsEF:
		span := x(n - 1)
		dst = binary.AppendUvarint(dst, span)
		scratch = append(scratch[:0], mids...)
		for i := range scratch {
			scratch[i] -= mids[0]
		}
		if p.step > 1 {
			for i := range scratch {
				scratch[i] /= p.step
			}
		}
		dst = appendEF(dst, scratch, span)
	case midsGaps:
		dst = binary.AppendUvarint(dst, p.least)
		w := BitWriter{Buf: append(dst, p.w, p.aw)}
		for i := gapGroup; i < n; i += gapGroup {
			w.Put(x(i), uint(p.aw))
		}
		w.Flush()
		for i := 1; i < n; i++ {
			w.Put(x(i)-x(i-1)-p.least, uint(p.w))
		}
		dst = w.Flush()
	}
	return dst
}

// midsView reads a mids part.
type midsView struct {
	Kind uint8

	oneGroup bool // first and what follows are numbers in group
	group    uint8

	w, aw uint8
	n     int32
	First uint64
	Step  uint64
	least uint64
	anch  int32 // bit offset of the anchors
	gaps  int32 // bit offset of the gaps
	Ef    eliasFano
}

// Parse takes the part with n ids (n >= 1) off c; a damaged one sets c.bad.
func (v *midsView) parse(c *Cutter, n int) {
	v.Kind, v.n, v.group = uint8(c.U8()), int32(n), 0
	if v.oneGroup = v.Kind >= MidsGroup; v.oneGroup {
		v.Kind -= MidsGroup
		v.group = uint8(c.U8())
	}
	v.First, v.Step = c.U64(), c.Uvarint()
	if v.Step == 0 {
		c.Bad = true
	}
	switch v.Kind {
	case midsStride:
	case MidsEF:
		span := c.Uvarint()
		v.Ef.parse(c, n, span)
	case midsGaps:
		v.least, v.w, v.aw = c.Uvarint(), uint8(c.U8()), uint8(c.U8())
		v.anch = int32(8 * c.Bits((n-1)/gapGroup, uint(v.aw)))
		v.gaps = int32(8 * c.Bits(n-1, uint(v.w)))
	default:
		c.Bad = true
	}
}

// Search returns how many ids are below mid, and whether mid is among them. b is the page.
func (v *midsView) Search(b []byte, mid uint64) (i int, found bool) {
	exact := true
	if v.oneGroup {
		mid, exact = v.number(mid)
	}
	if mid <= v.First {
		return 0, mid == v.First && exact
	}
	x := mid - v.First
	if v.Step != 1 {
		q := x / v.Step
		if q*v.Step != x { // between two multiples: the ids below are those up to q
			exact = false
			q++
		}
		x = q
	}
	switch v.Kind {
	case midsStride:
		if x >= uint64(v.n) {
			return int(v.n), false
		}
		return int(x), exact
	case MidsEF:
		i, found = v.Ef.search(b, x)
	default:
		i, found = v.searchGaps(b, x)
	}
	return i, found && exact
}

// number is that of the first id of the group that is not below mid, and whether that is mid.
func (v *midsView) number(mid uint64) (number uint64, exact bool) {
	if slot.Group(mid) == v.group {
		return slot.Number(mid), true
	}
	return slot.NumberFrom(v.group, mid), false
}

// Posts makes ids of the numbers in dst, stride apart, n of them.
func (v *midsView) Posts(dst []uint64, stride, n int) {
	if v.oneGroup {
		for i := range n {
			dst[i*stride] = slot.Post(v.group, dst[i*stride])
		}
	}
}

func (v *midsView) searchGaps(b []byte, x uint64) (int, bool) {
	n, w, aw := int(v.n), uint(v.w), uint(v.aw)
	lo, hi := 0, (n-1)/gapGroup // anchor k is x(64k+64): find how many are <= x
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); Load(b, int(v.anch)+m*int(aw), aw) <= x {
			lo = m + 1
		} else {
			hi = m
		}
	}
	sum, i := uint64(0), 0
	if lo > 0 {
		sum, i = Load(b, int(v.anch)+(lo-1)*int(aw), aw), lo*gapGroup
	}
	for sum < x {
		if i++; i >= n {
			return n, false
		}
		sum += v.least + Load(b, int(v.gaps)+(i-1)*int(w), w)
	}
	return i, sum == x
}

// midsCursor walks the ids in order.
type midsCursor struct {
	v   *midsView
	b   []byte
	ef  efCursor
	i   int
	sum uint64
}

func (c *midsCursor) init(v *midsView, b []byte) {
	*c = midsCursor{v: v, b: b}
	if v.Kind == MidsEF {
		c.ef.init(&v.Ef, b)
	}
}

// Next returns the next id; ok is false behind the last.
func (c *midsCursor) next() (mid uint64, ok bool) {
	v := c.v
	if c.i >= int(v.n) {
		return 0, false
	}
	x := uint64(c.i)
	switch v.Kind {
	case MidsEF:
		if x, ok = c.ef.next(); !ok {
			return 0, false
		}
	case midsGaps:
		if c.i > 0 {
			c.sum += v.least + Load(c.b, int(v.gaps)+(c.i-1)*int(v.w), uint(v.w))
		}
		x = c.sum
	}
	c.i++
	if v.oneGroup {
		return slot.Post(v.group, v.First+x*v.Step), true
	}
	return v.First + x*v.Step, true
}
