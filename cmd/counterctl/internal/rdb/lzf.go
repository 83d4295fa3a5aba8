package rdb

// maxExpansion is how many bytes a byte of LZF can make: 3 make 264.
const maxExpansion = 88

// unpackLZF appends what text stands for to dst; ok is whether that is exactly size bytes.
//
//	000nnnnn + n+1 bytes                 those bytes
//	nnnooooo oooooooo                    n+2 bytes that stand o+1 bytes back, n from 1 to 6
//	111ooooo nnnnnnnn oooooooo           n+9 bytes that stand o+1 bytes back
//
// What stands back may reach into what is being written: then it repeats.
func unpackLZF(dst, text []byte, size int) (_ []byte, ok bool) {
	if size/maxExpansion > len(text) {
		return nil, false
	}
	start := len(dst)
	for len(text) > 0 {
		first := int(text[0])
		text = text[1:]
		if first < 1<<5 {
			n := first + 1
			if n > len(text) || len(dst)-start+n > size {
				return nil, false
			}
			dst, text = append(dst, text[:n]...), text[n:]
			continue
		}
		n := first >> 5
		if n == 7 {
			if len(text) == 0 {
				return nil, false
			}
			n += int(text[0])
			text = text[1:]
		}
		n += 2
		if len(text) == 0 {
			return nil, false
		}
		from := len(dst) - (first&0x1f)<<8 - int(text[0]) - 1
		text = text[1:]
		if from < start || len(dst)-start+n > size {
			return nil, false
		}
		for i := range n {
			dst = append(dst, dst[from+i])
		}
	}
	return dst, len(dst)-start == size
}
