package schema

import (
	"encoding/binary"

	"github.com/counterd/counterd/internal/slot"
)

// ParsePosts reads mids, as ParseMid does, and finds their groups of hash slots. They go to mids and groups, which are as long as words. It returns how many of
// words are mids: all of them, or those in front of the first other word. It allocates nothing.
func ParsePosts(words [][]byte, mids []uint64, groups []uint8) (n int) {
	for n = parseShort(words, mids, groups); n < len(words); n += parseShort(words[n:], mids[n:], groups[n:]) {
		mid, ok := ParseMid(words[n])
		if !ok {
			break
		}
		mids[n], groups[n] = mid, slot.Group(mid)
		n++
	}
	return n
}

// parseShort is ParsePosts as far as words are mids of 8 to 16 digits without a zero in front, as nearly all are. It reads two words of eight
// digits: the last digits, and the digits before with zeros in front. The tables of package slot are for four digits at a time.
func parseShort(words [][]byte, mids []uint64, groups []uint8) int {
	mids, groups = mids[:len(words)], groups[:len(words)]
	for i, b := range words {
		more := uint(len(b) - wordSize)
		if more > wordSize {
			return i
		}
		first, last := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[more:])
		x, y := first-0x3030303030303030, last-0x3030303030303030
		if (x|y|(first+0x4646464646464646)|(last+0x4646464646464646))&0x8080808080808080 != 0 || x&0xff == 0 { // see digits
			return i
		}
		half := (4*wordSize - 4*more) & 63 // x is shifted by 64 bits at most, too many for one shift
		high, low := fours(x<<half<<half), fours(y)
		mids[i] = (high&0xffff*1e4+high>>32&0xffff)*1e8 + low&0xffff*1e4 + low>>32&0xffff
		groups[i] = slot.OfFours(wordSize+more, high, low)
	}
	return len(words)
}

// fours joins eight digits, the bytes of x, to two numbers of four: the first in the lower 16 bits of the lower half, the second in those of the upper
// half. The other bits mean nothing.
func fours(x uint64) uint64 {
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	return x*100 + x>>16
}
