package idmp

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// sum is crc32.Update of the n bytes at p with the Castagnoli table, by the instruction that the processor has for it. REQUIRES cpu.X86.HasSSE42.
//
//go:noescape
func sum(state uint32, p *byte, n int) uint32

// update is crc32.Update with the Castagnoli table. A key of 18 bytes takes a third of the instructions here: crc32.Update is made for long data.
func update(state uint32, b []byte) uint32 {
	if len(b) > 0 && cpu.X86.HasSSE42 {
		return sum(state, &b[0], len(b))
	}
	return crc32.Update(state, castagnoli, b)
}
