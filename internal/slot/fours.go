package slot

import "math/bits"

// A group depends on 8 of the 16 bits of the CRC16, which is linear. Digits are '0' xor their value, so the group of an id is the xor of
//
//	begins   the group of zeros, as many as the id has digits
//	fours    the part of the values of four digits, by the place of the four in the id, and their value: 0000 has none
//
// and no step waits for another.

// shortDigits is how many digits the ids have that are hashed so: those of most sites. Ids with more are hashed by crc16.
const shortDigits = 16

// fours and begins are described above. The four digits at place 0 are the last of an id. They have room for all values of an index with a mask, so that
// it is not compared with their length.
var (
	fours  [shortDigits / 4][fourMask + 1]uint8
	begins [lengthMask + 1]uint8
)

const (
	fourMask   = 1<<14 - 1
	lengthMask = 1<<5 - 1
)

// lengths is added to an id below 10^16 so that the highest byte is the number of its digits. It is by the number of bits of the id: all ids of so many
// bits have n digits, and from 10^n on one more:
//
//	(n+1)<<56 - 10^n
var lengths [65]uint64

// initFours makes the tables.
func initFours() {
	for place := range fours {
		for v := range lastDigits {
			sum := uint16(0)
			for i, rest := 4*place, v; rest > 0; i, rest = i+1, rest/10 {
				sum ^= crcDigits[i][rest%10] ^ crcDigits[i][0]
			}
			fours[place][v] = groupBits(sum)
		}
	}
	sum := uint16(0)
	for i := range shortDigits {
		sum ^= crcDigits[i][0]
		begins[i+1] = groupBits(sum)
	}
	n, next := 1, uint64(10) // next is 10^n
	for b := range lengths {
		for b > 1 && n < shortDigits && uint64(1)<<(b-1) >= next { // the least id of b bits
			n, next = n+1, 10*next
		}
		lengths[b] = uint64(n+1)<<56 - next
	}
}

// groupBits is the group of a text with this CRC16.
func groupBits(crc uint16) uint8 { return GroupOf(crc % Slots) }

// Group is the group of the hash slot of a post.
func Group(mid uint64) uint8 {
	if mid >= 1e16 {
		return groupBits(crc16(mid))
	}
	high := mid / 1e8
	h, l := uint32(high), uint32(mid-1e8*high)
	a, c := h/lastDigits, l/lastDigits
	digits := (mid + lengths[bits.Len64(mid)]) >> 56
	return begins[digits&lengthMask] ^ fours[3][a&fourMask] ^ fours[2][(h-lastDigits*a)&fourMask] ^ fours[1][c&fourMask] ^ fours[0][(l-lastDigits*c)&fourMask]
}

// OfFours is the group of an id of 1 to 16 digits, the first of which is not 0. The digits are given four by four, behind zeros: high has the first
// four in the lower 16 bits of its lower half and the next four in those of its upper half, low the last eight likewise. The other bits mean nothing.
func OfFours(digits uint, high, low uint64) uint8 {
	return begins[digits&lengthMask] ^ fours[3][high&fourMask] ^ fours[2][high>>32&fourMask] ^ fours[1][low&fourMask] ^ fours[0][low>>32&fourMask]
}
