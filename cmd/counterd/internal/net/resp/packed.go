package resp

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Rows of posts travel packed between the nodes of a cluster, where both know format 2 of COUNTER.LINK. All numbers have their lowest byte
// first.
//
//	COUNTER.MGET counter PACKED ids      ids is one argument
//
//	ids     | id, 8 bytes | id | ...
//
//	reply   | & | length of the rest, 4 bytes | row | row | ...      a row for each id, in their order
//	row     | n, 1 byte | reply of n bytes |                         below 255 bytes; n = 0: there is no such post
//	        | 255 | n, 4 bytes | reply of n bytes |
//
// The reply in a row is one of RESP in the neutral version: the integers of a post, or an error. So the node that asked copies rows, and looks
// at no element of them. An error that takes the place of all rows is a reply of RESP.

// Packed is the word in front of packed ids.
const Packed = "PACKED"

// PackedID is the length of a packed id in bytes.
const PackedID = 8

const (
	packedMark = '&'
	packedHead = 1 + 4
	longRow    = 255
)

// AppendPackedID appends a packed id.
func AppendPackedID(dst []byte, id uint64) []byte { return binary.LittleEndian.AppendUint64(dst, id) }

// TakePackedID takes the first id. REQUIRES PackedID bytes.
func TakePackedID(b []byte) (id uint64, rest []byte) {
	return binary.LittleEndian.Uint64(b), b[PackedID:]
}

// BeginPacked begins a packed reply, and returns where.
func (r *Replies) BeginPacked() (start int) {
	start = len(r.b)
	r.b = append(r.b, packedMark, 0, 0, 0, 0)
	return start
}

// BeginRow begins a row, whose reply is appended next. It returns where the row begins.
func (r *Replies) BeginRow() (row int) {
	row = len(r.b)
	r.b = append(r.b, 0)
	return row
}

// EndRow ends the row of BeginRow.
func (r *Replies) EndRow(row int) {
	n := len(r.b) - row - 1
	if n < longRow {
		r.b[row] = byte(n)
		return
	}
	r.b = append(r.b, 0, 0, 0, 0)
	copy(r.b[row+5:], r.b[row+1:row+1+n])
	r.b[row] = longRow
	binary.LittleEndian.PutUint32(r.b[row+1:], uint32(n))
}

// PackedInts appends packed rows of integers that are below 2^63. The rows share the values evenly. REQUIRES rows > 0.
func (r *Replies) PackedInts(values []uint64, rows int) {
	columns := len(values) / rows
	if columns >= 10 {
		for i := range rows {
			at := r.BeginRow()
			r.Ints(values[i*columns : (i+1)*columns])
			r.EndRow(at)
		}
		return
	}
	const short = 9*mostInt + 4 // bytes of a row at most, which its first byte has to hold
	_ = [longRow - short]struct{}{}
	head := '*' | uint32('0'+columns)<<8 | crlf<<16
	b := slices.Grow(r.b, 5*rows+mostInt*len(values))
	for i := range rows {
		n := len(b)
		b = b[:n+5]
		binary.LittleEndian.PutUint32(b[n+1:], head)
		b = putInts(b, values[i*columns:(i+1)*columns])
		b[n] = byte(len(b) - n - 1)
	}
	r.b = b
}

// EndPacked ends the reply of BeginPacked.
func (r *Replies) EndPacked(start int) {
	binary.LittleEndian.PutUint32(r.b[start+1:], uint32(len(r.b)-start-packedHead))
}

// IsPacked tells whether b begins with a packed reply.
func IsPacked(b []byte) bool { return len(b) > 0 && b[0] == packedMark }

// PackedSize is the length of the packed reply that b begins with, 0 where its length has not arrived yet. The length is a claim: the bytes may
// not be there.
func PackedSize(b []byte) int {
	if len(b) < packedHead {
		return 0
	}
	return packedHead + int(binary.LittleEndian.Uint32(b[1:]))
}

// PackedRows are the rows of a whole packed reply.
func PackedRows(reply []byte) []byte { return reply[packedHead:] }

// ErrPacked: bytes are no rows.
var ErrPacked = errors.New("resp: got bytes that are no packed rows")

// MergeRows appends an array of rows to r. Each post takes the next row of a list of packed rows, whose number from has. If a list has too few rows, at is its
// number, and part of the array may have been appended.
func MergeRows(r *Replies, lists [][]byte, from []uint16) (at int, err error) {
	r.Array(len(from))
	size := wideRow + len("*-1\r\n")*len(from)
	for _, list := range lists {
		size += len(list)
	}
	r.b = slices.Grow(r.b, size)
	b := r.b
	for _, of := range from {
		list := lists[of]
		if len(list) > wideRow {
			if n := int(list[0]); n > 0 && n <= wideRow { // nearly all: a copy of a fixed length is a few instructions
				end := len(b)
				*(*[wideRow]byte)(b[end : end+wideRow]) = *(*[wideRow]byte)(list[1:])
				b, lists[of] = b[:end+n], list[1+n:]
				continue
			}
		}
		row, rest, err := TakeRow(list)
		if err != nil {
			r.b = b
			return int(of), err
		}
		if len(row) == 0 {
			b = AppendNullArray(b, r.Protocol())
		} else {
			b = append(b, row...)
		}
		lists[of] = rest
	}
	r.b = b
	return 0, nil
}

// wideRow is the length of rows that MergeRows copies at once: those of three columns have 16 to 30 bytes.
const wideRow = 32

// TakeRow takes the first of the rows: the reply of a post, empty where there is none.
func TakeRow(rows []byte) (row, rest []byte, err error) {
	if len(rows) == 0 {
		return nil, nil, ErrPacked
	}
	n, head := int(rows[0]), 1
	if n == longRow {
		if len(rows) < 5 {
			return nil, nil, ErrPacked
		}
		n, head = int(binary.LittleEndian.Uint32(rows[1:])), 5
	}
	if n > len(rows)-head {
		return nil, nil, ErrPacked
	}
	return rows[head : head+n], rows[head+n:], nil
}
