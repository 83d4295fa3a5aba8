package page

import (
	"encoding/binary"
	"math/bits"
)

// Elias-Fano: n strictly increasing numbers 0 <= x[0] < ... < x[n-1] <= top, in n*(2+log2(top/n)) bits at most,
// searchable in place.
//
//	+--------+----------------------+---------------------------------+
//	| l  u8  | low: n fields, l bits | high: n + (top>>l) bits         |
//	+--------+----------------------+---------------------------------+
//
// low[i] holds the low l bits of x[i]; bit (x[i]>>l)+i of high is one. So the run of ones behind the h-th zero
// holds the numbers whose upper part is h, and the number of a one is its position less the zeros before it.
// n and top are known from the context (page count and span, or the size of a set). These rules are part of the
// format and must not change.
//
// Why: ids with exponential gaps of mean 4000 have an entropy of 13.4 bits; this takes 14.0, bit-packed gaps
// 14.7, and a search needs no decoding.
type eliasFano struct {
	n     int32
	low   int32 // byte offset of low
	high  int32 // byte offset of high
	hbits int32 // bits of high
	l     uint8
}

// efLow chooses the l that makes the encoding smallest.
func efLow(n int, top uint64) uint {
	// The optimum is next to log2(top/n); no division, as planning a page asks some hundred times.
	guess := bits.Len64(top) - bits.Len64(uint64(n))
	l := uint(max(guess-2, 0))
	best, bestBits := l, uint64(n)*uint64(l)+top>>l
	for last := uint(min(max(guess+2, 0), 63)); l < last; {
		l++
		if c := uint64(n)*uint64(l) + top>>l; c < bestBits {
			best, bestBits = l, c
		}
	}
	return best
}

// efSize is the encoded size in bytes, n >= 1.
func efSize(n int, top uint64) int {
	l := efLow(n, top)
	return 1 + bytesFor(n*int(l)) + bytesFor(n+int(top>>l))
}

// appendEF appends the encoding of the numbers x[0] < x[1] < ... <= top, of which there is one at least.
func appendEF[T int32 | uint64](dst []byte, x []T, top uint64) []byte {
	n := len(x)
	l := efLow(n, top)
	dst = appendFields(append(dst, byte(l)), x, l)
	at := len(dst)
	dst = append(dst, make([]byte, bytesFor(n+int(top>>l)))...)
	high := dst[at:]
	for i, v := range x {
		p := int(uint64(v)>>l) + i
		high[p>>3] |= 1 << (p & 7)
	}
	return dst
}

// Parse takes the encoding of n numbers up to top off c. A false c.bad says that every access stays inside the
// page, whatever the bits are.
func (e *eliasFano) parse(c *Cutter, n int, top uint64) {
	l := c.U8()
	if l > 63 || top>>(l&63) > uint64(8*(c.End-c.Pos)) {
		c.Bad = true
		return
	}
	e.cutBits(c, n, l, n+int(top>>l))
}

// cutBits takes low and high, of hbits bits, off c.
func (e *eliasFano) cutBits(c *Cutter, n int, l uint, hbits int) {
	e.n, e.l, e.hbits = int32(n), uint8(l), int32(hbits)
	e.low = int32(c.Bits(n, l))
	e.high = int32(c.Bits(hbits, 1))
}

// Search returns how many of the numbers are below x, and whether x is among them. b is the page.
func (e *eliasFano) search(b []byte, x uint64) (i int, found bool) {
	n, high, hbits, l := int(e.n), int(e.high), int(e.hbits), uint(e.l&63)
	h := x >> l
	if h > uint64(hbits-n) { // above top
		return n, false
	}
	pos := 0
	if h > 0 {
		pos = select0(b, high, hbits, int(h))
	}
	want := x & Mask(l)
	for i = pos - int(h); pos < hbits && i < n && b[high+pos>>3]>>(pos&7)&1 == 1; i++ {
		if low := Load(b, int(e.low)*8+i*int(l), l); low >= want {
			return i, low == want
		}
		pos++
	}
	return min(i, n), false
}

// efCursor walks the numbers in order.
type efCursor struct {
	e   *eliasFano
	b   []byte
	i   int    // numbers taken
	pos int    // next 64-bit group of high to load
	cur uint64 // ones of the group before pos not taken yet
}

func (c *efCursor) init(e *eliasFano, b []byte) { *c = efCursor{e: e, b: b} }

// Next returns the next number; ok is false behind the last.
func (c *efCursor) next() (x uint64, ok bool) {
	e := c.e
	if c.i >= int(e.n) {
		return 0, false
	}
	for c.cur == 0 {
		if c.pos >= int(e.hbits) {
			return 0, false
		}
		c.cur = binary.LittleEndian.Uint64(c.b[int(e.high)+c.pos>>3:])
		if left := int(e.hbits) - c.pos; left < 64 {
			c.cur &= Mask(uint(left))
		}
		c.pos += 64
	}
	p := c.pos - 64 + bits.TrailingZeros64(c.cur)
	c.cur &= c.cur - 1
	if p < c.i { // more ones than the writer set: only in a damaged page
		return 0, false
	}
	l := uint(e.l)
	x = uint64(p-c.i)<<l | Load(c.b, int(e.low)*8+c.i*int(l), l)
	c.i++
	return x, true
}
