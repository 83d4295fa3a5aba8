package page

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Whole parts of a page are decoded here, at 0.5 to 2 ns a value, where a cursor takes 8: a scan with a condition wants
// a column of a whole page, and often nothing else of it.
//
// As everywhere, any bytes are safe: the functions return false for a damaged part.

// unpack stores base plus each of the fields of w bits that begin at bit number bit of b. REQUIRES that cutter.bits
// vouched for them.
func unpack(dst []uint64, b []byte, bit int, w uint, base uint64) {
	switch {
	case w == 0:
		for i := range dst {
			dst[i] = base
		}
	case w > 28:
		for i := range dst {
			dst[i] = base + Load(b, bit, w)
			bit += int(w)
		}
	default: // several fields of 8 bytes
		each := 57 / int(w)
		m := Mask(w)
		for len(dst) > 0 {
			word := binary.LittleEndian.Uint64(b[bit>>3:]) >> (bit & 7)
			now := dst[:min(each, len(dst))]
			for i := range now {
				now[i] = base + word&m
				word >>= w
			}
			dst = dst[len(now):]
			bit += each * int(w)
		}
	}
}

// Decode stores all numbers of the sequence, of which there shall be n, stride apart in dst, each multiplied by step
// and added to first.
func (e *eliasFano) Decode(dst []uint64, stride, n int, b []byte, first, step uint64) bool {
	l, hbits := uint(e.l), int(e.hbits)
	low, m := int(e.low)*8, Mask(l)
	i, at := 0, 0
	for pos := 0; pos < hbits; pos += 64 {
		word := binary.LittleEndian.Uint64(b[int(e.high)+pos>>3:])
		if left := hbits - pos; left < 64 {
			word &= Mask(uint(left))
		}
		if i+bits.OnesCount64(word) > n {
			return false
		}
		for ; word != 0; word &= word - 1 {
			p := pos + bits.TrailingZeros64(word) - i
			if p < 0 {
				return false
			}
			x := binary.LittleEndian.Uint64(b[low>>3:]) >> (low & 7) & m
			if l > 57 { // a few rows far apart
				x = Load(b, low, l)
			}
			x |= uint64(p) << l
			low += int(l)
			dst[at] = first + x*step
			at += stride
			i++
		}
	}
	return i == n
}

// Decode stores all ids in dst, which is as long as there are.
func (v *midsView) Decode(dst []uint64, b []byte) bool {
	switch v.Kind {
	case midsStride:
		for i := range dst {
			dst[i] = v.First + uint64(i)*v.Step
		}
	case MidsEF:
		return v.Ef.Decode(dst, 1, len(dst), b, v.First, v.Step)
	default:
		dst[0] = v.First
		unpack(dst[1:], b, int(v.gaps), uint(v.w), v.least)
		for i := 1; i < len(dst); i++ {
			dst[i] = dst[i-1] + dst[i]*v.Step
		}
	}
	return true
}

// DecodeSome stores the ids of the rows of sel, which rise, stride apart in dst.
func (v *midsView) DecodeSome(dst []uint64, stride int, b []byte, sel []int32) bool {
	e := &v.Ef
	word, pos, ones := uint64(0), -64, 0 // the group of high, where it begins, and the ones before it
	l := uint(e.l)
	for k, row := range sel {
		for pos < 0 || ones+bits.OnesCount64(word) <= int(row) {
			if pos >= 0 {
				ones += bits.OnesCount64(word)
			}
			if pos += 64; pos >= int(e.hbits) {
				return false
			}
			word = binary.LittleEndian.Uint64(b[int(e.high)+pos>>3:])
			if left := int(e.hbits) - pos; left < 64 {
				word &= Mask(uint(left))
			}
		}
		p := pos + select1(word, int(row)-ones+1)
		if p < int(row) {
			return false
		}
		x := uint64(p-int(row))<<l | Load(b, int(e.low)*8+int(row)*int(l), l)
		dst[k*stride] = v.First + x*v.Step
	}
	return true
}

// Positions appends those of the set, rising.
func (s *bitset) Positions(dst []int32, b []byte) ([]int32, bool) {
	if s.plain == 0 {
		e := &s.ef
		l, hbits := uint(e.l), int(e.hbits)
		i, last, low := 0, -1, int(e.low)*8
		for pos := 0; pos < hbits; pos += 64 {
			word := binary.LittleEndian.Uint64(b[int(e.high)+pos>>3:])
			if left := hbits - pos; left < 64 {
				word &= Mask(uint(left))
			}
			for ; word != 0; word &= word - 1 {
				p := pos + bits.TrailingZeros64(word)
				if i >= int(e.n) || p < i {
					return dst, false
				}
				x := uint64(p-i) << l
				if l > 0 {
					x |= Load(b, low, l)
					low += int(l)
				}
				if x >= uint64(s.n) || int(x) <= last {
					return dst, false
				}
				last = int(x)
				dst = append(dst, int32(x))
				i++
			}
		}
		return dst, i == int(s.m)
	}
	n := len(dst)
	for pos := 0; pos < int(s.n); pos += 64 {
		word := binary.LittleEndian.Uint64(b[int(s.plain)+pos>>3:])
		if left := int(s.n) - pos; left < 64 {
			word &= Mask(uint(left))
		}
		for ; word != 0; word &= word - 1 {
			dst = append(dst, int32(pos+bits.TrailingZeros64(word)))
		}
	}
	return dst, len(dst)-n == int(s.m)
}

// LadderDecoder decodes ladders. It is scratch.
type LadderDecoder struct {
	pos  [maxLevels][]int32 // of the values that go on, by number of levels behind
	val  [maxLevels][]uint64
	both []uint64 // of mix
}

// Among appends the numbers of the n values of the ladder in front of c that meet r. Levels whose values are all too
// small are passed over without a look at their fields, and so are those whose values are all too large: with a
// condition that few values meet, little more than the sets is read.
func (d *LadderDecoder) Among(dst []int32, c *Cutter, n int, r *Range) ([]int32, bool) {
	levels := c.U8()
	base := c.Uvarint()
	if c.Bad || levels < 1 || levels > maxLevels {
		return dst, false
	}
	at, top := len(dst), levels
	for ; levels > 1; levels-- {
		from := c.Pos
		w := c.U8()
		if c.Bad || w > 63 || r.Lo < base+1<<w && r.Hi >= base { // it may have some
			c.Pos = from
			break
		}
		if r.Hi < base {
			return dst, !c.Bad
		}
		var more bitset
		var ok bool
		if n == 0 {
			return dst, false
		}
		if more.parse(c, n); !c.Bad {
			c.Bits(n-int(more.m), w)
		}
		if c.Bad {
			return dst, false
		}
		pos, ok := more.Positions(d.pos[levels-1][:0], c.B)
		if d.pos[levels-1] = pos; !ok {
			return dst, false
		}
		n = len(pos)
		base += 1 << w
	}
	if cap(d.val[0]) < n {
		d.val[0] = make([]uint64, max(n, 2*cap(d.val[0])))
	}
	vals := d.val[0][:n]
	if !d.level(vals, c, levels, base, r.Hi) {
		return dst, false
	}
	dst = r.among(dst, vals, 0)
	for ; levels < top; levels++ { // numbers on a level to numbers on the one before
		pos := d.pos[levels]
		for k, i := range dst[at:] {
			dst[at+k] = pos[i]
		}
	}
	return dst, true
}

// Decode stores the values of the ladder in front of c in dst, which is as long as there are.
func (d *LadderDecoder) Decode(dst []uint64, c *Cutter) bool {
	levels := c.U8()
	base := c.Uvarint()
	if c.Bad || levels < 1 || levels > maxLevels {
		return false
	}
	return d.level(dst, c, levels, base, math.MaxUint64)
}

// level decodes the last levels of a ladder, c standing in front of the first of them. In the place of values above
// most it may store others that are, too.
func (d *LadderDecoder) level(dst []uint64, c *Cutter, levels uint, base, most uint64) bool {
	w := c.U8()
	if c.Bad || w > 64 {
		return false
	}
	n := len(dst)
	if levels == 1 {
		at := c.Bits(n, w)
		if c.Bad {
			return false
		}
		unpack(dst, c.B, at*8, w, base)
		return true
	}
	if n == 0 {
		return false // a set of nothing
	}
	var more bitset
	if more.parse(c, n); c.Bad {
		return false
	}
	m := int(more.m)
	at := c.Bits(n-m, w)
	if c.Bad {
		return false
	}
	levels--
	pos, ok := more.Positions(d.pos[levels][:0], c.B)
	if d.pos[levels] = pos; !ok {
		return false
	}
	if cap(d.val[levels]) < m {
		d.val[levels] = make([]uint64, m)
	}
	rest := d.val[levels][:m]
	if next := base + 1<<w; next > most && next > base {
		for i := range rest {
			rest[i] = next
		}
	} else if !d.level(rest, c, levels, next, most) {
		return false
	}
	if more.plain != 0 { // one in five goes on, or more
		d.mix(dst, rest, c.B, int(more.plain), at*8, w, base)
		return true
	}
	// The fields are put in front, then moved up from the last on, to make room for those that go on.
	src := n - m
	unpack(dst[:src], c.B, at*8, w, base)
	end := n
	for k := m - 1; k >= 0; k-- {
		p := int(pos[k])
		run := end - 1 - p
		src -= run
		if run < 16 {
			for i := run - 1; i >= 0; i-- {
				dst[p+1+i] = dst[src+i]
			}
		} else {
			copy(dst[p+1:end], dst[src:src+run])
		}
		dst[p] = rest[k]
		end = p
	}
	return true
}

// mix puts the fields of a level and the values that go on, rest, in their places, without a branch that depends on
// which is which. REQUIRES that the plain set has as many ones as there are in rest.
func (d *LadderDecoder) mix(dst, rest []uint64, b []byte, set, bit int, w uint, base uint64) {
	n := len(dst)
	if cap(d.both) < n {
		d.both = make([]uint64, n)
	}
	both := d.both[:n]
	next := [2]int{0, n - len(rest)}
	unpack(both[:next[1]], b, bit, w, base)
	copy(both[next[1]:], rest)
	for i := 0; i < n; i += 64 {
		word := binary.LittleEndian.Uint64(b[set+i>>3:])
		fields, more := next[0], next[1]
		now := dst[i:min(i+64, n)]
		for k := range now {
			on := int(word & 1)
			word >>= 1
			now[k] = both[fields+(more-fields)&-on]
			more += on
			fields += 1 - on
		}
		next = [2]int{fields, more}
	}
}
