package coldstore

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
	b     []byte
	n     int
	l     uint
	low   int // byte offset of low
	high  int // byte offset of high
	hbits int // bits of high
}

// efLow chooses the l that makes the encoding smallest.
func efLow(n int, top uint64) uint {
	best, bestBits := uint(0), ^uint64(0)
	guess := bits.Len64(top / uint64(n))
	for l := max(guess-2, 0); l <= min(guess+1, 63); l++ {
		if c := uint64(n)*uint64(l) + top>>l; c < bestBits {
			best, bestBits = uint(l), c
		}
	}
	return best
}

// efSize is the encoded size in bytes, n >= 1.
func efSize(n int, top uint64) int {
	l := efLow(n, top)
	return 1 + bytesFor(n*int(l)) + bytesFor(n+int(top>>l))
}

// appendEF appends the encoding of the n numbers x(0) < x(1) < ... <= top.
func appendEF(dst []byte, n int, top uint64, x func(i int) uint64) []byte {
	l := efLow(n, top)
	w := bitWriter{buf: append(dst, byte(l))}
	for i := range n {
		w.put(x(i), l)
	}
	dst = w.flush()
	at := len(dst)
	dst = append(dst, make([]byte, bytesFor(n+int(top>>l)))...)
	for i := range n {
		p := int(x(i)>>l) + i
		dst[at+p>>3] |= 1 << (p & 7)
	}
	return dst
}

// parse takes the encoding of n numbers up to top off c. A false c.bad says that every access stays inside the
// page, whatever the bits are.
func (e *eliasFano) parse(c *cutter, n int, top uint64) {
	e.b, e.n, e.l = c.b, n, c.u8()
	if e.l > 63 || top>>(e.l&63) > uint64(8*(c.end-c.pos)) {
		c.bad = true
		return
	}
	e.low = c.bits(n, e.l)
	e.hbits = n + int(top>>e.l)
	e.high = c.bits(e.hbits, 1)
}

// search returns how many of the numbers are below x, and whether x is among them.
func (e *eliasFano) search(x uint64) (i int, found bool) {
	h := x >> e.l
	if h > uint64(e.hbits-e.n) { // above top
		return e.n, false
	}
	pos := 0
	if h > 0 {
		pos = select0(e.b, e.high, e.hbits, int(h))
	}
	want := x & mask(e.l)
	for i = pos - int(h); pos < e.hbits && i < e.n && e.b[e.high+pos>>3]>>(pos&7)&1 == 1; i++ {
		if low := load(e.b, e.low*8+i*int(e.l), e.l); low >= want {
			return i, low == want
		}
		pos++
	}
	return min(i, e.n), false
}

// efCursor walks the numbers in order.
type efCursor struct {
	e   *eliasFano
	i   int    // numbers taken
	pos int    // next 64-bit group of high to load
	cur uint64 // ones of the group before pos not taken yet
}

func (c *efCursor) init(e *eliasFano) { *c = efCursor{e: e} }

// next returns the next number; ok is false behind the last.
func (c *efCursor) next() (x uint64, ok bool) {
	e := c.e
	if c.i >= e.n {
		return 0, false
	}
	for c.cur == 0 {
		if c.pos >= e.hbits {
			return 0, false
		}
		c.cur = binary.LittleEndian.Uint64(e.b[e.high+c.pos>>3:])
		if left := e.hbits - c.pos; left < 64 {
			c.cur &= mask(uint(left))
		}
		c.pos += 64
	}
	p := c.pos - 64 + bits.TrailingZeros64(c.cur)
	c.cur &= c.cur - 1
	if p < c.i { // more ones than the writer set: only in a damaged page
		return 0, false
	}
	x = uint64(p-c.i)<<e.l | load(e.b, e.low*8+c.i*int(e.l), e.l)
	c.i++
	return x, true
}
