package gather

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// ErrProtocol: a node answered what is no reply.
var ErrProtocol = errors.New("gather: what came is no reply")

const (
	// maxLine is more than any line has: errors quote 128 bytes of an argument or two.
	maxLine = 64 << 10
	// maxReply is the most bytes of a reply: 10,000 rows of 64 columns are 14 MB.
	maxReply = 64 << 20
	// maxElements is the most elements of an array: the keys that KEYS answers, and more than an argument list has.
	maxElements = 1 << 21
)

// scanner finds the end of a reply in bytes that come piece by piece. It looks at each element once: what it knows of
// the reply so far is how many bytes of it are whole elements, and how many elements are missing.
type scanner struct {
	pos  int // behind the last whole element
	left int // elements that are missing; 0: a reply begins
}

// next goes on in b, which begins with the reply. It returns the reply's length, 0 where more has to come.
func (s *scanner) next(b []byte) (n int, err error) {
	if s.left == 0 {
		s.pos, s.left = 0, 1
	}
	if s.pos == 0 && resp.IsPacked(b) {
		switch n = resp.PackedSize(b); {
		case n > maxReply:
			return 0, fmt.Errorf("%w: it says that it has %d bytes, want at most %d", ErrProtocol, n, maxReply)
		case n == 0 || n > len(b):
			return 0, nil
		}
		s.left = 0
		return n, nil
	}
	for s.left > 0 {
		size, inner := short(b[s.pos:])
		if size == 0 {
			size, inner, err = element(b[s.pos:])
		}
		if err != nil || size == 0 {
			if len(b) > maxReply {
				err = fmt.Errorf("%w: it has more than %d bytes", ErrProtocol, maxReply)
			}
			return 0, err
		}
		s.pos += size
		s.left += inner - 1
		if s.left > maxElements {
			return 0, fmt.Errorf("%w: it has more than %d elements", ErrProtocol, maxElements)
		}
	}
	return s.pos, nil
}

// short is element for the elements of pages: integers of up to 13 digits, arrays of up to 9 elements. The size is 0 for all others. A
// line ends within two words, in which its end is looked for at once: 2 ns instead of 12.
func short(b []byte) (size, inner int) {
	if len(b) < 16 {
		return 0, 0
	}
	switch b[0] {
	case ':':
		return integer(b), 0
	case '*':
		if b[2] == '\r' && b[3] == '\n' && b[1]-'0' < 10 {
			return 4, int(b[1] - '0')
		}
	}
	return 0, 0
}

// integer is the length of the integer that b begins with. It is 0 for other replies, and for integers of more digits than short takes.
func integer(b []byte) (size int) {
	if len(b) < 16 || b[0] != ':' {
		return 0
	}
	size = lineEnd(binary.LittleEndian.Uint64(b))
	if size == 0 {
		if size = lineEnd(binary.LittleEndian.Uint64(b[8:])); size == 0 {
			return 0
		}
		size += 8
	}
	if size < 3 || b[size-2] != '\r' {
		return 0
	}
	return size
}

// lineEnd is the number of bytes of w up to its first line feed, and with it; 0: it has none.
func lineEnd(w uint64) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	w ^= '\n' * low
	if w = (w - low) &^ w & high; w == 0 {
		return 0
	}
	return bits.TrailingZeros64(w)>>3 + 1
}

// element is the length of the element that b begins with, without what is in it, and how many elements are in it.
// The length is 0 where it is not whole.
func element(b []byte) (size, inner int, err error) {
	if len(b) < 3 {
		return 0, 0, nil
	}
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	if end < 0 {
		if len(b) >= maxLine {
			return 0, 0, fmt.Errorf("%w: a line has more than %d bytes", ErrProtocol, maxLine)
		}
		return 0, 0, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return 0, 0, fmt.Errorf("%w: got %.40q, want a line with CRLF", ErrProtocol, b[:end+1])
	}
	line := b[1 : end-1]
	switch b[0] {
	case '+', '-', ':', '_', '(', ',', '#': // those of RESP3 are this node's own part of an answer
		return end + 1, 0, nil
	}
	n, ok := resp.Number(line)
	if !ok || n < -1 || n > maxReply {
		return 0, 0, fmt.Errorf("%w: got %.40q", ErrProtocol, b[:end+1])
	}
	switch b[0] {
	case '$':
		size := end + 1
		if n < 0 {
			return size, 0, nil
		}
		if size += int(n) + 2; len(b) < size {
			return 0, 0, nil
		}
		if b[size-2] != '\r' || b[size-1] != '\n' {
			return 0, 0, fmt.Errorf("%w: CRLF is missing behind %d bytes", ErrProtocol, n)
		}
		return size, 0, nil
	case '*', '~':
		return end + 1, max(0, int(n)), nil
	case '%':
		return end + 1, 2 * max(0, int(n)), nil
	}
	return 0, 0, fmt.Errorf("%w: got %.40q", ErrProtocol, b[:end+1])
}

// Head is what an element says: its kind and, of a number or an aggregate, how much. REQUIRES a whole element.
func Head(b []byte) (kind byte, n int64, size int) {
	end := bytes.IndexByte(b, '\n')
	if end < 2 {
		return 0, -1, 0
	}
	n, _ = resp.Number(b[1 : end-1])
	return b[0], n, end + 1
}

// Size is the length of the reply that b begins with; 0: there is no whole one.
func Size(b []byte) int {
	var s scanner
	n, err := s.next(b)
	if err != nil {
		return 0
	}
	return n
}

// Elements are those of an array, one behind the other; nil if reply is none.
func Elements(reply []byte) []byte {
	n, inner, err := element(reply)
	if err != nil || n == 0 || inner == 0 {
		return nil
	}
	return reply[n:]
}

// AppendAs appends a reply that is in the neutral version of the protocol in the version that out speaks. REQUIRES a
// whole reply.
func AppendAs(out *resp.Replies, reply []byte) { AppendNext(out, reply) }

// AppendNext is AppendAs of the reply that b begins with, whose length it returns. 0: there is no whole one, and a part of it may
// have been appended. Elements that are alike in all versions are copied at once: all of a page but its missing posts.
func AppendNext(out *resp.Replies, b []byte) (n int) {
	from := 0 // the first byte that was not appended yet
	for left := 1; left > 0; {
		size, inner := short(b[n:])
		if size == 0 {
			var err error
			if size, inner, err = element(b[n:]); err != nil || size == 0 {
				return 0
			}
			if of := b[n : n+size]; !alike(of) {
				out.Raw(b[from:n])
				appendOwn(out, of)
				from = n + size
			}
		}
		n += size
		left += inner - 1
	}
	out.Raw(b[from:n])
	return n
}

// alike tells whether an element is the same in all versions.
func alike(b []byte) bool {
	switch b[0] {
	case '%', '~':
		return false
	case '$', '*':
		return b[1] != '-'
	}
	return true
}

// appendOwn appends an element that is not alike in all versions.
func appendOwn(out *resp.Replies, b []byte) {
	_, n, _ := Head(b)
	switch b[0] {
	case '$':
		out.Null()
	case '*':
		out.NullArray()
	case '%':
		out.Map(int(n))
	case '~':
		out.Set(int(n))
	}
}
