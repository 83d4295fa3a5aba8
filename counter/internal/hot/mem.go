package hot

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// All unsafe memory access of the package is in this file. Offsets are computed from m, stride and W only, and
// New checks once that the last bucket's last word lies inside the memory it was given; tailPad keeps the 8- and
// 9-byte accesses of the last item inside too.

// tailPad is how many bytes behind the last bucket a load or store may touch.
const tailPad = 16

// words views mem, which must begin at a multiple of 8, as n words.
func words(mem []byte, n int) []uint64 {
	if len(mem) < 8*n || uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		panic(fmt.Sprintf("hot: got %d bytes at %p, want %d words", len(mem), &mem[0], n))
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), n)
}

// load64 reads 8 bytes little-endian at any alignment: one instruction where the processor can.
func load64(base unsafe.Pointer, off uintptr) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(base, off))[:])
}

func store64(base unsafe.Pointer, off uintptr, v uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(base, off))[:], v)
}

func load16(base unsafe.Pointer, off uintptr) uint16 {
	return binary.LittleEndian.Uint16((*[2]byte)(unsafe.Add(base, off))[:])
}

func store16(base unsafe.Pointer, off uintptr, v uint16) {
	binary.LittleEndian.PutUint16((*[2]byte)(unsafe.Add(base, off))[:], v)
}

func load8(base unsafe.Pointer, off uintptr) uint8     { return *(*uint8)(unsafe.Add(base, off)) }
func store8(base unsafe.Pointer, off uintptr, v uint8) { *(*uint8)(unsafe.Add(base, off)) = v }

// fours views words as rows of four.
func fours(words []uint64) [][4]uint64 {
	return unsafe.Slice((*[4]uint64)(unsafe.Pointer(unsafe.SliceData(words))), len(words)/4)
}

// loadBits reads width (1..64) bits that start bit bits behind byte off, least significant first.
func loadBits(base unsafe.Pointer, off uintptr, bit, width uint) uint64 {
	off += uintptr(bit >> 3)
	bit &= 7
	v := load64(base, off) >> bit
	if bit+width > 64 {
		v |= uint64(load8(base, off+8)) << ((64 - bit) & 63)
	}
	return v & (^uint64(0) >> ((64 - width) & 63))
}

// storeBits writes width (1..64) bits of v; bits around them stay. v must fit.
func storeBits(base unsafe.Pointer, off uintptr, bit, width uint, v uint64) {
	off += uintptr(bit >> 3)
	bit &= 7
	mask := ^uint64(0) >> ((64 - width) & 63)
	w := load64(base, off)
	store64(base, off, w&^(mask<<bit)|v<<bit)
	if bit+width > 64 {
		hi := load8(base, off+8)
		store8(base, off+8, hi&^uint8(mask>>(64-bit))|uint8(v>>(64-bit)))
	}
}
