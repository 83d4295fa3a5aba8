package format

import (
	"encoding/binary"
	"math/bits"
)

// Varint is a number as records have it, for several records with the same number: the mid of a post whose change becomes several.
type Varint struct {
	v    uint64
	word uint64 // its bytes, the first one lowest
	n    uint   // bytes; 0: they are more than a word has
}

// VarintOf makes the bytes of v.
func VarintOf(v uint64) Varint {
	if v>>56 != 0 {
		return Varint{v: v}
	}
	n := uint(bits.Len64(v)*9+64) / 64 // as putVarint
	w := v&(1<<28-1) | v>>28<<32
	w = w&0x00003fff_00003fff | w&0x0fffc000_0fffc000<<2
	w = w&0x007f007f_007f007f | w&0x3f803f80_3f803f80<<1
	return Varint{v: v, word: w | 0x80808080_80808080>>(72-8*n), n: n}
}

// AppendSetOf is AppendSet with the bytes of the mid.
func AppendSetOf(dst []byte, counter uint32, column uint16, mid *Varint, value uint64) []byte {
	n := len(dst)
	if counter|uint32(column) >= 0x80 || mid.n == 0 || cap(dst)-n < setRoom {
		return AppendSet(dst, counter, column, mid.v, value)
	}
	b := (*[setRoom]byte)(dst[n : n+setRoom])
	b[0], b[1], b[2] = byte(KindSet), byte(counter), byte(column)
	binary.LittleEndian.PutUint64(b[3:], mid.word)
	return dst[:n+int(putVarint(b, 3+mid.n, value))]
}

// setRoom is more bytes than a once of kind next and a set have: 17 and 29. A power of two saves the checks of bounds.
const setRoom = 64

// putVarint is binary.PutUvarint at a place of b, and may change the eight bytes from that place on. It returns the place behind. Numbers below 2^56 are put
// together in a register and stored at once: bytes of seven bits each, of which all but the last have their highest bit set.
func putVarint(b *[setRoom]byte, at uint, v uint64) uint {
	if v < 0x80 {
		b[at%setRoom] = byte(v)
		return at + 1
	}
	if at%setRoom > setRoom-8 || v>>56 != 0 {
		return putOnceSet(b, at, v)
	}
	n := uint(bits.Len64(v)*9+64) / 64 // (bits + 6) / 7, below 2^56
	v = v&(1<<28-1) | v>>28<<32
	v = v&0x00003fff_00003fff | v&0x0fffc000_0fffc000<<2
	v = v&0x007f007f_007f007f | v&0x3f803f80_3f803f80<<1
	binary.LittleEndian.PutUint64(b[at%setRoom:], v|0x80808080_80808080>>(72-8*n))
	return at + n
}

// putOnceSet is binary.PutUvarint at a place of b. It returns the place behind.
func putOnceSet(b *[setRoom]byte, at uint, v uint64) uint {
	for v >= 0x80 {
		b[at%setRoom] = byte(v) | 0x80
		at++
		v >>= 7
	}
	b[at%setRoom] = byte(v)
	return at + 1
}
