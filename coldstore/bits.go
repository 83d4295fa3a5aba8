package coldstore

import (
	"encoding/binary"
	"math/bits"
)

// pageTail is how many bytes at the end of every page no part may use: zeros, so that load may fetch 9 bytes from any
// bit of any part without a check of its own. Part of the format; costs 0.005 bytes a row.
const pageTail = 9

// load returns the w bits (0..64) that start at bit number bit of b, least significant first.
//
// REQUIRES bit/8+9 <= len(b): parsers take parts from the page less its tail only.
func load(b []byte, bit int, w uint) uint64 {
	p, s := bit>>3, uint(bit&7)
	v := binary.LittleEndian.Uint64(b[p:]) >> s
	if s+w > 64 {
		v |= uint64(b[p+8]) << (64 - s)
	}
	return v & mask(w)
}

// mask returns w ones, 0 <= w <= 64.
func mask(w uint) uint64 {
	if w >= 64 {
		return ^uint64(0)
	}
	return 1<<w - 1
}

// bytesFor is the number of bytes that hold n bits.
func bytesFor(n int) int { return (n + 7) >> 3 }

// bitWriter appends bit fields, least significant first, to buf. Call flush to fill up the last byte with zeros.
type bitWriter struct {
	buf []byte
	acc uint64
	n   uint // bits in acc, < 8 between calls
}

func (w *bitWriter) put(v uint64, width uint) {
	v &= mask(width)
	if w.n+width > 64 {
		lo := 64 - w.n // 57..63: fits, as w.n < 8
		w.put(v, lo)
		v, width = v>>lo, width-lo
	}
	w.acc |= v << w.n
	for w.n += width; w.n >= 8; w.n -= 8 {
		w.buf = append(w.buf, byte(w.acc))
		w.acc >>= 8
	}
}

func (w *bitWriter) flush() []byte {
	if w.n > 0 {
		w.buf = append(w.buf, byte(w.acc))
		w.acc, w.n = 0, 0
	}
	return w.buf
}

// select0 returns the position just behind the k-th zero (k >= 1) of the nbits bits that start at byte off of b,
// or nbits if there are fewer zeros. It counts 256 bits at a time: a page of 1900 mids has 15 such groups.
func select0(b []byte, off, nbits, k int) int {
	base := 0
	for ; base+256 <= nbits; base += 256 {
		g := b[off+base>>3:][:32]
		c := 256 - bits.OnesCount64(binary.LittleEndian.Uint64(g)) - bits.OnesCount64(binary.LittleEndian.Uint64(g[8:])) -
			bits.OnesCount64(binary.LittleEndian.Uint64(g[16:])) - bits.OnesCount64(binary.LittleEndian.Uint64(g[24:]))
		if k <= c {
			break
		}
		k -= c
	}
	for ; base < nbits; base += 64 {
		word := ^binary.LittleEndian.Uint64(b[off+base>>3:])
		if left := nbits - base; left < 64 {
			word &= mask(uint(left))
		}
		c := bits.OnesCount64(word)
		if k <= c {
			return base + select1(word, k) + 1
		}
		k -= c
	}
	return nbits
}

// select1 returns the position of the k-th one of word, which has k ones at least.
func select1(word uint64, k int) (pos int) {
	for half := uint(32); half >= 8; half /= 2 {
		if c := bits.OnesCount64(word & mask(half)); k > c {
			k -= c
			word >>= half
			pos += int(half)
		}
	}
	for ; k > 1; k-- {
		word &= word - 1
	}
	return pos + bits.TrailingZeros64(word)
}

// rank1 counts the ones among the first i bits that start at byte off of b.
func rank1(b []byte, off, i int) int {
	c := 0
	for ; i >= 64; i -= 64 {
		c += bits.OnesCount64(binary.LittleEndian.Uint64(b[off:]))
		off += 8
	}
	return c + bits.OnesCount64(binary.LittleEndian.Uint64(b[off:])&mask(uint(i)))
}

// cutter takes fields off the front of a part of a page. A field that does not fit sets bad and reads as 0; so a
// parser may take several fields and check bad once. end lies pageTail bytes or more before the end of b.
type cutter struct {
	b   []byte // the page
	pos int
	end int
	bad bool
}

func (c *cutter) u8() uint {
	if c.pos >= c.end {
		c.bad = true
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return uint(v)
}

func (c *cutter) u64() uint64 {
	if c.end-c.pos < 8 {
		c.bad = true
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b[c.pos:])
	c.pos += 8
	return v
}

func (c *cutter) uvarint() uint64 {
	if c.pos < c.end && c.b[c.pos] < 0x80 { // one byte in nearly every real page
		c.pos++
		return uint64(c.b[c.pos-1])
	}
	if c.pos >= c.end {
		c.bad = true
		return 0
	}
	v, n := binary.Uvarint(c.b[c.pos:c.end])
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.pos += n
	return v
}

// bits takes n fields of w bits, filled up to a whole byte, and returns the byte offset where they start.
// n is at most maxPageItems plus the bits of a page, so n*w does not overflow.
func (c *cutter) bits(n int, w uint) int {
	size := bytesFor(n * int(w))
	if n < 0 || w > 64 || size > c.end-c.pos {
		c.bad = true
		return 0
	}
	at := c.pos
	c.pos += size
	return at
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }
