package page

import (
	"encoding/binary"
	"math/bits"
)

// A bitset is a subset of the positions 0..n-1 of which m >= 1 are in, with has and rank in place.
//
//	plain    | 0xff u8 | m uvarint | n bits, filled up to a byte |
//	sparse   | l u8    | m uvarint | low | high |   Elias-Fano of the positions, top = n-1
//
// The first byte tells them apart (an Elias-Fano l is at most 63). Sparse wins below about one in five: at one in
// ten it takes 0.53 bits a position, at one in a hundred 0.087; the entropies are 0.47 and 0.081.
type bitset struct {
	n, m  int32
	plain int32     // byte offset of the bits, or 0 if sparse
	ef    eliasFano // if sparse
}

const bitsetPlain = 0xff

// BitsetSize is the encoded size in bytes.
func BitsetSize(n, m int) int {
	return min(bytesFor(n)+1, efSize(m, uint64(n-1))) + uvarintLen(uint64(m))
}

// appendBitset appends the set of the n positions that holds those in pos, ascending.
func appendBitset(dst []byte, n int, pos []int32) []byte {
	m := len(pos)
	if bytesFor(n)+1 <= efSize(m, uint64(n-1)) {
		dst = binary.AppendUvarint(append(dst, bitsetPlain), uint64(m))
		at := len(dst)
		dst = append(dst, make([]byte, bytesFor(n))...)
		for _, p := range pos {
			dst[at+int(p>>3)] |= 1 << (p & 7)
		}
		return dst
	}
	// appendEF writes l first; m goes between l and low, so that the first byte tells the kinds apart.
	at := len(dst)
	dst = appendEF(dst, pos, uint64(n-1))
	var v [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(v[:], uint64(m))
	dst = append(dst, v[:k]...)
	copy(dst[at+1+k:], dst[at+1:len(dst)-k])
	copy(dst[at+1:], v[:k])
	return dst
}

// Parse takes a set of n positions off c.
func (s *bitset) parse(c *Cutter, n int) {
	s.n, s.plain = int32(n), 0
	l := c.U8()
	m := c.Uvarint()
	if m > uint64(n) || n == 0 || c.Bad {
		c.Bad = true
		return
	}
	s.m = int32(m)
	if l == bitsetPlain {
		s.plain = int32(c.Bits(n, 1))
		return
	}
	if l > 63 {
		c.Bad = true
		return
	}
	s.ef.cutBits(c, int(m), l, int(m)+(n-1)>>l)
}

// rank returns how many positions below i are in the set, and whether i is. 0 <= i < n. b is the page.
func (s *bitset) rank(b []byte, i int) (r int, in bool) {
	if s.plain == 0 {
		return s.ef.search(b, uint64(i))
	}
	plain := int(s.plain)
	r = rank1(b, plain, i)
	return min(r, int(s.m)), b[plain+i>>3]>>(i&7)&1 == 1
}

// bitsetCursor walks the positions in order and says for each whether it is in.
type bitsetCursor struct {
	s    *bitset
	b    []byte
	i    int
	word uint64   // plain: bits of the group that holds i
	ef   efCursor // sparse
	next int      // sparse: next position in the set, n if none is left
}

func (c *bitsetCursor) init(s *bitset, b []byte) {
	*c = bitsetCursor{s: s, b: b}
	if s.plain == 0 {
		c.ef.init(&s.ef, b)
		c.advance()
	}
}

func (c *bitsetCursor) advance() {
	c.next = int(c.s.n)
	if x, ok := c.ef.next(); ok && x < uint64(c.s.n) {
		c.next = int(x)
	}
}

// Step returns whether the current position is in the set and goes to the next one.
func (c *bitsetCursor) step() bool {
	i := c.i
	c.i++
	if c.s.plain == 0 {
		if i != c.next {
			return false
		}
		c.advance()
		return true
	}
	if i&63 == 0 {
		c.word = binary.LittleEndian.Uint64(c.b[int(c.s.plain)+i>>3:])
	}
	return bits.RotateLeft64(c.word, -(i&63))&1 == 1
}
