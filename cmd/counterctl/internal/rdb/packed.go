package rdb

import (
	"encoding/binary"
	"strconv"
)

// elements walks through a hash, a sorted set or a list that is one string. An element is valid until the next call;
// ok is false at the end and where the string is not what it should be, which bad tells.
type elements struct {
	text   []byte
	number []byte // room for elements that are integers
	bad    bool
	next   func(e *elements) (b []byte, ok bool)
}

// take consumes n bytes.
func (e *elements) take(n int) ([]byte, bool) {
	if n < 0 || n > len(e.text) {
		e.bad = true
		return nil, false
	}
	b := e.text[:n]
	e.text = e.text[n:]
	return b, true
}

func (e *elements) fail() ([]byte, bool) {
	e.bad = true
	return nil, false
}

// integer gives a little-endian integer of n bytes as text.
func (e *elements) integer(n int) ([]byte, bool) {
	b, ok := e.take(n)
	if !ok {
		return nil, false
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	shift := 64 - 8*n
	return e.decimal(int64(v<<shift) >> shift)
}

func (e *elements) decimal(v int64) ([]byte, bool) {
	e.number = strconv.AppendInt(e.number[:0], v, 10)
	return e.number, true
}

// listpack reads
//
//	| bytes in all, 4 LE | elements, 2 LE, 65535: more | element ... | 0xff |
//	element: | encoding | data | length of both, 7 bits a byte, 1 to 5 bytes |
func listpack(text []byte) *elements {
	e := &elements{text: text, next: nextOfListpack}
	if head, ok := e.take(6); ok && binary.LittleEndian.Uint32(head) != uint32(len(text)) {
		e.bad = true
	}
	return e
}

func nextOfListpack(e *elements) ([]byte, bool) {
	before := len(e.text)
	head, ok := e.take(1)
	if !ok || head[0] == 0xff {
		e.bad = e.bad || len(e.text) > 0
		return nil, false
	}
	b, ok := e.packed(head[0])
	if !ok {
		return nil, false
	}
	if _, ok := e.take(backLength(before - len(e.text))); !ok {
		return nil, false
	}
	return b, true
}

// packed gives the element of a listpack whose first byte is given.
//
//	0nnnnnnn             the number n            11110001   2 bytes, 11110010 3, 11110011 4, 11110100 8: a number
//	10nnnnnn             n bytes                 1110nnnn nnnnnnnn   n bytes
//	110nnnnn nnnnnnnn    the number n, signed    11110000 + 4 LE     n bytes
func (e *elements) packed(first byte) ([]byte, bool) {
	switch {
	case first>>7 == 0:
		return e.decimal(int64(first))
	case first>>6 == 2:
		return e.take(int(first & 0x3f))
	case first>>5 == 6:
		b, ok := e.take(1)
		if !ok {
			return nil, false
		}
		v := int64(first&0x1f)<<8 | int64(b[0])
		return e.decimal(v << 51 >> 51)
	case first>>4 == 14:
		b, ok := e.take(1)
		if !ok {
			return nil, false
		}
		return e.take(int(first&0x0f)<<8 | int(b[0]))
	case first == 0xf0:
		b, ok := e.take(4)
		if !ok {
			return nil, false
		}
		return e.take(int(binary.LittleEndian.Uint32(b)))
	case first <= 0xf3:
		return e.integer(int(first&3) + 1)
	case first == 0xf4:
		return e.integer(8)
	}
	return e.fail()
}

// backLength is how many bytes the length behind an element has.
func backLength(n int) int {
	switch {
	case n <= 127:
		return 1
	case n < 1<<14-1:
		return 2
	case n < 1<<21-1:
		return 3
	case n < 1<<28-1:
		return 4
	}
	return 5
}

// ziplist reads
//
//	| bytes in all, 4 LE | offset of the last, 4 LE | elements, 2 LE | element ... | 0xff |
//	element: | length of the one before: 1 byte, or 254 and 4 | encoding | data |
func ziplist(text []byte) *elements {
	e := &elements{text: text, next: nextOfZiplist}
	if head, ok := e.take(10); ok && binary.LittleEndian.Uint32(head) != uint32(len(text)) {
		e.bad = true
	}
	return e
}

// nextOfZiplist gives an element of a ziplist.
//
//	00nnnnnn              n bytes                 11000000   2 bytes, 11010000 4, 11100000 8, 11110000 3,
//	01nnnnnn nnnnnnnn     n bytes                 11111110   1: a number
//	10------ + 4 BE       n bytes                 1111nnnn   the number n-1, n from 1 to 13
func nextOfZiplist(e *elements) ([]byte, bool) {
	head, ok := e.take(1)
	if !ok || head[0] == 0xff {
		e.bad = e.bad || len(e.text) > 0
		return nil, false
	}
	if head[0] == 254 {
		if _, ok := e.take(4); !ok {
			return nil, false
		}
	}
	if head, ok = e.take(1); !ok {
		return nil, false
	}
	switch first := head[0]; {
	case first>>6 == 0:
		return e.take(int(first))
	case first>>6 == 1:
		b, ok := e.take(1)
		if !ok {
			return nil, false
		}
		return e.take(int(first&0x3f)<<8 | int(b[0]))
	case first>>6 == 2:
		b, ok := e.take(4)
		if !ok {
			return nil, false
		}
		return e.take(int(binary.BigEndian.Uint32(b)))
	case first == 0xc0:
		return e.integer(2)
	case first == 0xd0:
		return e.integer(4)
	case first == 0xe0:
		return e.integer(8)
	case first == 0xf0:
		return e.integer(3)
	case first == 0xfe:
		return e.integer(1)
	case 0xf1 <= first && first <= 0xfd:
		return e.decimal(int64(first&0x0f) - 1)
	}
	return e.fail()
}

// zipmap reads
//
//	| pairs, 1, 254: more | length key length free value and so many bytes ... | 0xff |     length: 1 byte, or 254 and 4 LE
//
// which servers before 2.6 wrote.
func zipmap(text []byte) *elements {
	value := false
	e := &elements{text: text}
	e.next = func(e *elements) ([]byte, bool) {
		head, ok := e.take(1)
		if !ok || head[0] == 0xff && !value {
			e.bad = e.bad || len(e.text) > 0
			return nil, false
		}
		n := int(head[0])
		switch {
		case n == 255:
			return e.fail()
		case n == 254:
			b, ok := e.take(4)
			if !ok {
				return nil, false
			}
			n = int(binary.LittleEndian.Uint32(b))
		}
		free := 0
		if value {
			b, ok := e.take(1)
			if !ok {
				return nil, false
			}
			free = int(b[0])
		}
		value = !value
		b, ok := e.take(n)
		if !ok {
			return nil, false
		}
		_, ok = e.take(free)
		return b, ok
	}
	_, _ = e.take(1)
	return e
}
