package page

import (
	"encoding/binary"
	"math/bits"
)

// TailLen is how many bytes at the end of every page no part may use: zeros, so that load may fetch 9 bytes from any
// bit of any part without a check of its own. Part of the format; costs 0.005 bytes a row.
const TailLen = 9

// Load returns the w bits (0..64) that start at bit number bit of b, least significant first.
//
// REQUIRES bit/8+9 <= len(b): parsers take parts from the page less its tail only.
func Load(b []byte, bit int, w uint) uint64 {
	p, s := bit>>3, uint(bit&7)
	v := binary.LittleEndian.Uint64(b[p:]) >> s
	if s+w > 64 {
		v |= uint64(b[p+8]) << (64 - s)
	}
	return v & Mask(w)
}

// Mask returns w ones, 0 <= w <= 64.
func Mask(w uint) uint64 {
	if w >= 64 {
		return ^uint64(0)
	}
	return 1<<w - 1
}

// bytesFor is the number of bytes that hold n bits.
func bytesFor(n int) int { return (n + 7) >> 3 }

// BitWriter appends bit fields, least significant first, to buf. Call flush to fill up the last byte with zeros.
type BitWriter struct {
	Buf []byte
	acc uint64
	n   uint // bits in acc, < 8 between calls
}

func (w *BitWriter) Put(v uint64, width uint) {
	v &= Mask(width)
	if w.n+width > 64 {
		lo := 64 - w.n // 57..63: fits, as w.n < 8
		w.Put(v, lo)
		v, width = v>>lo, width-lo
	}
	w.acc |= v << w.n
	for w.n += width; w.n >= 8; w.n -= 8 {
		w.Buf = append(w.Buf, byte(w.acc))
		w.acc >>= 8
	}
}

func (w *BitWriter) Flush() []byte {
	if w.n > 0 {
		w.Buf = append(w.Buf, byte(w.acc))
		w.acc, w.n = 0, 0
	}
	return w.Buf
}

// appendFields appends the low w bits of each value, filled up to a byte: what a BitWriter does, four bytes at a time.
func appendFields[T int32 | uint64](dst []byte, v []T, w uint) []byte {
	if w == 0 {
		return dst
	}
	if w > 32 {
		bw := BitWriter{Buf: dst}
		for _, x := range v {
			bw.Put(uint64(x), w)
		}
		return bw.Flush()
	}
	acc, n, m := uint64(0), uint(0), Mask(w)
	for _, x := range v {
		acc |= (uint64(x) & m) << n
		if n += w; n >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
			acc >>= 32
			n -= 32
		}
	}
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// select0 returns the position just behind the k-th zero (k >= 1) of the nbits bits that start at byte off of b,
// or something from nbits on if there are fewer zeros.
func select0(b []byte, off, nbits, k int) int {
	base := 0
	// 512 bits at a time while there are as many bytes, without a branch that depends on the bits inside of them.
	for ; base < nbits && off+base>>3+64 <= len(b); base += 512 {
		group := b[off+base>>3:][:64]
		word, before, sum := 0, 0, 0
		for i := 0; i < 64; i += 8 {
			sum += 64 - bits.OnesCount64(binary.LittleEndian.Uint64(group[i:]))
			if sum < k {
				word, before = i+8, sum
			}
		}
		if word < 64 {
			return base + word*8 + select1(^binary.LittleEndian.Uint64(group[word:]), k-before) + 1
		}
		k -= sum
	}
	for ; base < nbits; base += 64 {
		word := ^binary.LittleEndian.Uint64(b[off+base>>3:])
		c := bits.OnesCount64(word)
		if k <= c {
			return base + select1(word, k) + 1
		}
		k -= c
	}
	return nbits
}

// select1 returns the position of the k-th one (k >= 1) of word, which has k ones at least. It has no branch: a wrong
// guess of the processor would cost more than the whole.
func select1(word uint64, k int) (pos int) {
	const each = 0x0101010101010101
	s := word - word>>1&0x5555555555555555
	s = s&0x3333333333333333 + s>>2&0x3333333333333333
	s = (s + s>>4) & (0x0f * each) * each // byte j: the ones in bytes 0..j, at most 64
	// The top bit of byte j stays set if that is less than k; the bytes before the one wanted.
	less := (uint64(k-1)*each | 0x80*each) - s
	at := uint(bits.OnesCount64(less&(0x80*each))) * 8 & 63
	left := uint64(k) - s<<8>>at&0xff
	w := word >> at
	for half := uint(4); half > 0; half /= 2 {
		c := uint64(bits.OnesCount64(w & (1<<half - 1)))
		more := uint64(int64(c-left) >> 63) // all ones if it is in the upper half
		left -= c & more
		w >>= uint64(half) & more
		at += half & uint(more)
	}
	return int(at)
}

// rank1 counts the ones among the first i bits that start at byte off of b.
func rank1(b []byte, off, i int) int {
	c := 0
	for ; i >= 64; i -= 64 {
		c += bits.OnesCount64(binary.LittleEndian.Uint64(b[off:]))
		off += 8
	}
	return c + bits.OnesCount64(binary.LittleEndian.Uint64(b[off:])&Mask(uint(i)))
}

// Cutter takes fields off the front of a part of a page. A field that does not fit sets bad and reads as 0; so a
// parser may take several fields and check bad once. end lies TailLen bytes or more before the end of b.
type Cutter struct {
	B   []byte // the page
	Pos int
	End int
	Bad bool
}

func (c *Cutter) U8() uint {
	if c.Pos >= c.End {
		c.Bad = true
		return 0
	}
	v := c.B[c.Pos]
	c.Pos++
	return uint(v)
}

func (c *Cutter) U64() uint64 {
	if c.End-c.Pos < 8 {
		c.Bad = true
		return 0
	}
	v := binary.LittleEndian.Uint64(c.B[c.Pos:])
	c.Pos += 8
	return v
}

func (c *Cutter) Uvarint() uint64 {
	if c.Pos < c.End && c.B[c.Pos] < 0x80 { // one byte in nearly every real page
		c.Pos++
		return uint64(c.B[c.Pos-1])
	}
	if c.Pos >= c.End {
		c.Bad = true
		return 0
	}
	v, n := binary.Uvarint(c.B[c.Pos:c.End])
	if n <= 0 {
		c.Bad = true
		return 0
	}
	c.Pos += n
	return v
}

// Bits takes n fields of w bits, filled up to a whole byte, and returns the byte offset where they start.
// n is at most MaxItems plus the bits of a page, so n*w does not overflow.
func (c *Cutter) Bits(n int, w uint) int {
	size := bytesFor(n * int(w))
	if n < 0 || w > 64 || size > c.End-c.Pos {
		c.Bad = true
		return 0
	}
	at := c.Pos
	c.Pos += size
	return at
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }
