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
		h = h.With(a)
	}
	return h
}

// With is Add of one argument.
func (h Hash) With(arg []byte) Hash { return Hash(update(uint32(h)^uint32(len(arg)), arg)) }

// Sum is the 21 bits that are kept.
func (h Hash) Sum() uint32 { return uint32(uint64(h) * 0x9E3779B97F4A7C15 >> 43) }
