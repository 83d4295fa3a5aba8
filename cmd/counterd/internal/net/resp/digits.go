package resp

import "math/bits"

// The width of a counter is as good as random to the processor: a branch on it is predicted wrong every third time, which costs as much as
// twenty instructions. So the small numbers that most counters are come from a table, and numbers of up to eight digits are made without a branch.

// integers are the numbers below 1000 as integers of the protocol, the first byte in the lowest one. The highest byte is the length.
//
//	: 4 2 CR LF 0 0 5
var integers = func() (table [1000]uint64) {
	for v := range uint64(len(table)) {
		text, width := oneWord(v)
		table[v] = ':' | text<<8 | crlf<<(8+8*uint(width)) | uint64(width+3)<<integerLength
	}
	return table
}()

// integerLength is the bit at which the length begins.
const integerLength = 56

// oneWordLimit is above all numbers of eight digits.
const oneWordLimit = 1e8

// oneWord is v, below oneWordLimit, in decimal: the first digit is the lowest byte, and zeros are behind the last one. Its parts are
// halved until they are digits: two of four digits, four of two, eight of one.
func oneWord(v uint64) (text uint64, width int) {
	upper := v / 10000
	x := upper | (v-10000*upper)<<32
	upper = x * 10486 >> 20 & 0x0000007f_0000007f
	x = upper | (x-100*upper)<<16
	upper = x * 103 >> 10 & 0x000f000f_000f000f
	x = upper | (x-10*upper)<<8
	zeros := bits.TrailingZeros64(x|1<<56) &^ 7 // in front of the number, if its last digit is none of them
	return (x | 0x30303030_30303030) >> (uint(zeros) & 63), 8 - zeros>>3
}
