package resp

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// The Append functions write one reply, or the head of one, behind dst and return
// the result, like append. proto is the protocol version that the client chose
// with HELLO: 3 is RESP3 and everything else RESP2.
//
//	type        RESP2                RESP3
//	map         *2n                  %n
//	set         *n                   ~n
//	push        *n                   >n
//	null        $-1                  _
//	null array  *-1                  _
//	double      $3 CRLF 1.5          ,1.5
//	boolean     :1 or :0             #t or #f
//	big number  $20 CRLF 123..  (123...   an integer where it fits 63 bits
//	verbatim    $2 CRLF hi           =6 CRLF txt:hi

// AppendMap writes the head of a map of n pairs; 2n replies must follow, key and
// value in turn.
func AppendMap(dst []byte, proto, n int) []byte {
	if proto == 3 || proto == Neutral {
		return appendHead(dst, '%', n)
	}
	return appendHead(dst, '*', 2*n)
}

// AppendSet writes the head of a set; n replies must follow.
func AppendSet(dst []byte, proto, n int) []byte {
	if proto == 3 || proto == Neutral {
		return appendHead(dst, '~', n)
	}
	return appendHead(dst, '*', n)
}

// AppendPush writes the head of a message the client did not ask for, such as one
// of a subscription; n replies must follow. In RESP2 it looks like a reply, which
// is why only subscribed connections may be sent one there.
func AppendPush(dst []byte, proto, n int) []byte {
	if proto == 3 {
		return appendHead(dst, '>', n)
	}
	return appendHead(dst, '*', n)
}

// AppendNull writes the null that stands where a string could be: the value of a
// key that does not exist.
func AppendNull(dst []byte, proto int) []byte {
	if proto == 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// AppendNullArray writes the null that stands where an array could be: EXEC after
// a watched key changed.
func AppendNullArray(dst []byte, proto int) []byte {
	if proto == 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}

// AppendDouble writes a number in the form of C's %.17g, which Redis 7.0 uses: it
// reads back as the same number but is not the shortest (0.1 gives
// 0.10000000000000001). Infinities are inf and -inf, not-a-number is nan.
func AppendDouble(dst []byte, proto int, v float64) []byte {
	var a [32]byte // the longest is -2.2250738585072014e-308, 24 bytes
	text := a[:0]
	switch {
	case math.IsInf(v, 1):
		text = append(text, "inf"...)
	case math.IsInf(v, -1):
		text = append(text, "-inf"...)
	case math.IsNaN(v):
		text = append(text, "nan"...)
	default:
		text = strconv.AppendFloat(text, v, 'g', 17, 64)
	}
	if proto == 3 {
		dst = append(dst, ',')
	} else {
		dst = appendHead(dst, '$', len(text))
	}
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// AppendUint128 writes the number hi<<64 | lo: as an integer where it is one,
// below 2^63, and otherwise as a big number, or in decimal as a bulk string.
func AppendUint128(dst []byte, proto int, hi, lo uint64) []byte {
	if hi == 0 && lo <= math.MaxInt64 {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, lo, 10)
		return append(dst, '\r', '\n')
	}
	v := new(big.Int).SetUint64(hi)
	text := v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(lo)).String()
	if proto == 3 {
		dst = append(dst, '(')
	} else {
		dst = appendHead(dst, '$', len(text))
	}
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// AppendVerbatim writes text meant for people, such as that of INFO. format is
// its kind in exactly three bytes, "txt" or "mkd"; other lengths are cut or
// filled with spaces, as a client counts on three.
func AppendVerbatim(dst []byte, proto int, format, text string) []byte {
	if proto == 3 {
		dst = appendHead(dst, '=', len(text)+4)
		kind := [4]byte{' ', ' ', ' ', ':'}
		copy(kind[:3], format)
		dst = append(dst, kind[:]...)
	} else {
		dst = appendHead(dst, '$', len(text))
	}
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// AppendError writes an error reply. msg begins with its code, such as ERR or
// WRONGTYPE. A line end in msg would end the reply and make the rest of it a
// second reply, which the author of the text could forge: line ends at either end
// of msg are dropped, others become spaces, as in Redis.
func AppendError(dst []byte, msg string) []byte {
	msg = strings.Trim(msg, "\r\n")
	dst = append(dst, '-')
	start := len(dst)
	dst = append(dst, msg...)
	for i := start; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return append(dst, '\r', '\n')
}

// AppendInts writes an array of integers, each below 2^63: the columns of a post.
func AppendInts(dst []byte, values []uint64) []byte {
	return appendEachInt(appendHead(dst, '*', len(values)), values)
}

// appendRows writes so many arrays of integers, which share the values evenly.
func appendRows(dst []byte, values []uint64, rows int) []byte {
	columns := len(values) / rows
	if columns >= 10 {
		for i := range rows {
			dst = AppendInts(dst, values[i*columns:(i+1)*columns])
		}
		return dst
	}
	head := '*' | uint32('0'+columns)<<8 | crlf<<16
	dst = slices.Grow(dst, 4*rows+mostInt*len(values))
	for i := range rows {
		n := len(dst)
		dst = dst[:n+4]
		binary.LittleEndian.PutUint32(dst[n:], head)
		dst = putInts(dst, values[i*columns:(i+1)*columns])
	}
	return dst
}

// mostInt is the most bytes of an integer.
const mostInt = len(":9223372036854775807\r\n")

// appendEachInt writes integers, each below 2^63.
func appendEachInt(dst []byte, values []uint64) []byte {
	return putInts(slices.Grow(dst, len(values)*mostInt), values)
}

// putInts is appendEachInt where dst has room for all.
func putInts(dst []byte, values []uint64) []byte {
	for _, v := range values {
		n := len(dst)
		if v < uint64(len(integers)) {
			w := integers[v]
			binary.LittleEndian.PutUint64(dst[n:n+8], w)
			dst = dst[:n+int(w>>integerLength)]
			continue
		}
		if v < oneWordLimit {
			text, width := oneWord(v)
			dst = dst[:n+1+width+2]
			dst[n] = ':'
			binary.LittleEndian.PutUint64(dst[n+1:n+9], text)
			binary.LittleEndian.PutUint16(dst[n+1+width:], crlf)
			continue
		}
		end := n + 1 + decimalWidth(v)
		dst = dst[:end+2]
		dst[n], dst[end], dst[end+1] = ':', '\r', '\n'
		putDecimal(dst[n+1:end], v)
	}
	return dst
}

// appendEachBulk writes bulk strings, as AppendBulkUint does, with room for all
// of them. One of up to three digits is two stores: the second is the bytes behind the
// colon of the integer. In place of a value whose bit of nulls is set, it writes
// the null of the protocol version; the lowest bit is that of the first value.
//
//	$ 2 CR LF 4 2 CR LF
func appendEachBulk(dst []byte, proto int, values []uint64, nulls uint64) []byte {
	const most = len("$20\r\n") + 20 + len("\r\n")
	dst = slices.Grow(dst, len(values)*most)
	for i, v := range values {
		n := len(dst)
		switch {
		case nulls>>(uint(i)&63)&1 != 0:
			dst = AppendNull(dst, proto)
		case v < uint64(len(integers)):
			w := integers[v]
			length := w >> integerLength
			binary.LittleEndian.PutUint32(dst[n:n+4], uint32('$'|('0'-3+length)<<8|crlf<<16))
			binary.LittleEndian.PutUint64(dst[n+4:n+12], w>>8)
			dst = dst[:n+3+int(length)]
		case v < oneWordLimit:
			text, width := oneWord(v)
			dst = dst[:n+4+width+2]
			binary.LittleEndian.PutUint32(dst[n:n+4], uint32('$'|('0'+width)<<8|crlf<<16))
			binary.LittleEndian.PutUint64(dst[n+4:n+12], text)
			binary.LittleEndian.PutUint16(dst[n+4+width:], crlf)
		default:
			dst = AppendBulkUint(dst, v)
		}
	}
	return dst
}

// AppendBulkUint writes v in decimal as a bulk string, the form of a counter's
// value in GET and MGET.
//
//	$3\r\n123\r\n     head, digits, CRLF, written from the back in place
func AppendBulkUint(dst []byte, v uint64) []byte {
	digits := decimalWidth(v)
	dst, at := appendNumberHead(dst, digits)
	putDecimal(dst[at:at+digits], v)
	return dst
}

// appendNumberHead writes a bulk string of width bytes, 1 to 20, with the bytes
// still to be filled in at the returned position.
func appendNumberHead(dst []byte, width int) ([]byte, int) {
	const most = len("$20\r\n") + 20 + len("\r\n")
	n := len(dst)
	dst = slices.Grow(dst, most)[:n+most]
	dst[n] = '$'
	n++
	if width >= 10 {
		dst[n] = byte('0' + width/10)
		n++
	}
	dst[n], dst[n+1], dst[n+2] = byte('0'+width%10), '\r', '\n'
	at := n + 3
	dst[at+width], dst[at+width+1] = '\r', '\n'
	return dst[:at+width+2], at
}

// putDecimal fills dst, which must be as wide as v, from the last digit on: two
// digits a division, which is half the cost of one digit a division.
func putDecimal(dst []byte, v uint64) {
	i := len(dst)
	for v >= 100 {
		pair := v % 100 * 2
		v /= 100
		i -= 2
		dst[i], dst[i+1] = pairs[pair], pairs[pair+1]
	}
	if v >= 10 {
		dst[0], dst[1] = pairs[v*2], pairs[v*2+1]
		return
	}
	dst[0] = byte('0' + v)
}

const pairs = "" +
	"00010203040506070809" + "10111213141516171819" +
	"20212223242526272829" + "30313233343536373839" +
	"40414243444546474849" + "50515253545556575859" +
	"60616263646566676869" + "70717273747576777879" +
	"80818283848586878889" + "90919293949596979899"

// decimalWidth is the number of decimal digits of v. 1233/4096 is log10(2) from
// above, close enough that the estimate is right or one too low for 64 bits; a
// comparison with the power of ten tells which.
func decimalWidth(v uint64) int {
	estimate := bits.Len64(v|1) * 1233 >> 12
	if v >= powersOfTen[estimate] {
		return estimate + 1
	}
	return max(estimate, 1)
}

var powersOfTen = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// appendHead writes the first line of an aggregate or of a string of length n.
func appendHead(dst []byte, marker byte, n int) []byte {
	if uint(n) < 10 {
		return append(dst, marker, byte('0'+n), '\r', '\n')
	}
	dst = append(dst, marker)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
