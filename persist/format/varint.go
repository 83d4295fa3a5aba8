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
