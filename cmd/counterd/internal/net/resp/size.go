package resp

import "bytes"

// KindPush is the first byte of a push, which is no reply to a command.
const KindPush = '>'

// Size is the length of the reply, or the push, that b begins with. b has replies as the functions of this package append
// them. Bytes that are not a whole reply count as one reply, so a loop over replies always ends.
func Size(b []byte) int {
	pos := 0
	for left := 1; left > 0; left-- {
		if IsPacked(b[pos:]) {
			if n := PackedSize(b[pos:]); n > 0 && n <= len(b)-pos {
				pos += n
				continue
			}
			return len(b)
		}
		end := bytes.IndexByte(b[pos:], '\n')
		if end < 2 { // a line ends with \r\n
			return len(b)
		}
		kind, line := b[pos], b[pos+1:pos+end-1]
		pos += end + 1
		switch kind {
		case '$', '=', '*', '~', KindPush, '%':
		default:
			continue
		}
		n, ok := Number(line)
		switch {
		case !ok || n > int64(len(b)):
			return len(b)
		case n < 0: // a null of RESP2
		case kind == '$' || kind == '=':
			if pos += int(n) + 2; pos > len(b) {
				return len(b)
			}
		case kind == '%':
			left += 2 * int(n)
		default:
			left += int(n)
		}
	}
	return pos
}
