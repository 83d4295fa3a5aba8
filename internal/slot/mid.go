package slot

// crcTriples holds what three digits contribute to the CRC16 of a decimal number, by how many triples follow and their
// value. CRC16 begins at 0 and is linear, so the contributions are xored. 14 KiB instead of 5 dependent steps a digit.
var crcTriples [7][1000]uint16

// crcFirst is the same for one or two digits that a number begins with.
var crcFirst [7][100]uint16

func init() {
	for triples := range crcTriples {
		for v := range crcTriples[triples] {
			crcTriples[triples][v] = crcDigit(v/100, 3*triples+2) ^ crcDigit(v/10%10, 3*triples+1) ^ crcDigit(v%10, 3*triples)
		}
		for v := range crcFirst[triples] {
			crcFirst[triples][v] = crcDigit(v%10, 3*triples)
			if v >= 10 {
				crcFirst[triples][v] ^= crcDigit(v/10, 3*triples+1)
			}
		}
	}
}

// crcDigit is the CRC16 of a digit with zero bytes behind it.
func crcDigit(v, zeros int) uint16 {
	crc := uint16('0'+v) << 8
	for range 8 * (zeros + 1) {
		if crc&0x8000 != 0 {
			crc = crc<<1 ^ 0x1021
		} else {
			crc <<= 1
		}
	}
	return crc
}

// crc16 is that of the decimal number. Half of the divisions do not wait for the others.
func crc16(v uint64) (crc uint16) {
	triples := 0
	if v >= 1e9 {
		high, low := v/1e9, uint32(v%1e9)
		t := low / 1000
		crc = crcTriples[0][low-1000*t]
		u := t / 1000
		crc ^= crcTriples[1][t-1000*u] ^ crcTriples[2][u]
		v, triples = high, 3
	}
	for v >= 1000 {
		next := v / 1000
		crc ^= crcTriples[triples][v-1000*next]
		v = next
		triples++
	}
	if v >= 100 {
		return crc ^ crcTriples[triples][v]
	}
	return crc ^ crcFirst[triples][v]
}
