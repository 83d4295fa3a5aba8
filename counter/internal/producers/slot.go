package producers

// A hash slot is CRC16 of the decimal mid (CCITT, as Redis Cluster has it), modulo 16384; what a key is in braces is
// hashed alone. 64 neighbouring slots are a group: 256 groups, which posts and what was done for them move by.

// crcPairs holds what two digits contribute to the CRC16 of a decimal number, by how many pairs follow and their value.
// CRC16 begins at 0 and is linear, so the contributions are xored. 2 KiB instead of 5 dependent table lookups a digit.
var crcPairs [10][100]uint16

// crcFirst is the same for a first digit that is no pair.
var crcFirst [10][10]uint16

func init() {
	for pairs := range crcPairs {
		for v := range crcPairs[pairs] {
			crcPairs[pairs][v] = crcDigits(byte('0'+v/10), 2*pairs+1) ^ crcDigits(byte('0'+v%10), 2*pairs)
		}
		for v := range crcFirst[pairs] {
			crcFirst[pairs][v] = crcDigits(byte('0'+v), 2*pairs)
		}
	}
}

// crcDigits is the CRC16 of a byte with zero bytes behind it.
func crcDigits(b byte, zeros int) uint16 {
	crc := uint16(b) << 8
	for range 8 * (zeros + 1) {
		if crc&0x8000 != 0 {
			crc = crc<<1 ^ 0x1021
		} else {
			crc <<= 1
		}
	}
	return crc
}

// SlotGroup is the group of the hash slot of a mid.
func SlotGroup(mid uint64) uint8 { return uint8(crc16(mid) & 16383 >> 6) }

// crc16 is that of the decimal number.
func crc16(v uint64) uint16 {
	var crc uint16
	for pairs := range crcPairs {
		if v < 10 {
			return crc ^ crcFirst[pairs][v]
		}
		next := v / 100
		crc ^= crcPairs[pairs][v-100*next]
		if v = next; v == 0 {
			break
		}
	}
	return crc
}
