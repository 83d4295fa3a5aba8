package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strconv"
)

// MaxString bounds the strings that are given to a Handler: keys, values, and small hashes, which are one string.
const MaxString = 64 << 20

var (
	// ErrTorn is a file that ends before its end.
	ErrTorn = errors.New("rdb: the file is not whole")
	// ErrCorrupt is a file that cannot be right.
	ErrCorrupt = errors.New("rdb: the file is damaged")
	// ErrUnsupported is a part of a file that is not known, and cannot be passed over.
	ErrUnsupported = errors.New("rdb: cannot be read")
)

// jones is the polynomial of Redis's CRC-64, bits reversed.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// addCRC adds bytes to a checksum. Redis's has neither of the inversions that package crc64 makes.
func addCRC(crc uint64, b []byte) uint64 { return ^crc64.Update(^crc, jones, b) }

// source reads bytes and sums them.
type source struct {
	r        io.Reader
	limit    uint64 // MaxString
	buf      []byte
	pos, end int    // buf[pos:end] is read and not yet consumed
	base     uint64 // offset of buf[0] in the file
	summed   int    // buf[:summed] is in crc
	crc      uint64
}

func newSource(r io.Reader, limit uint64) *source {
	return &source{r: r, limit: limit, buf: make([]byte, 64<<10)}
}

// offset is how far reading is.
func (s *source) offset() uint64 { return s.base + uint64(s.pos) }

// sum adds the consumed bytes to the checksum and returns it.
func (s *source) sum() uint64 {
	s.crc = addCRC(s.crc, s.buf[s.summed:s.pos])
	s.summed = s.pos
	return s.crc
}

func (s *source) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w near offset %d: %s", ErrCorrupt, s.offset(), fmt.Sprintf(format, args...))
}

// fill reads more. REQUIRES: all that is there was consumed, or it is less than 16 bytes.
func (s *source) fill() error {
	s.sum()
	s.base += uint64(s.pos)
	s.end = copy(s.buf, s.buf[s.pos:s.end])
	s.pos, s.summed = 0, 0
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		switch {
		case n > 0:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%w: it ends at offset %d", ErrTorn, s.base+uint64(s.end))
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// bytes consumes n bytes, at most 16, which are valid until the next call.
func (s *source) bytes(n int) ([]byte, error) {
	for s.end-s.pos < n {
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
	s.pos += n
	return s.buf[s.pos-n : s.pos], nil
}

func (s *source) byte() (byte, error) {
	if s.pos < s.end {
		s.pos++
		return s.buf[s.pos-1], nil
	}
	b, err := s.bytes(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (s *source) uint64() (uint64, error) {
	b, err := s.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// pass consumes n bytes.
func (s *source) pass(n uint64) error {
	for n > 0 {
		if s.pos == s.end {
			if err := s.fill(); err != nil {
				return err
			}
		}
		part := min(n, uint64(s.end-s.pos))
		s.pos += int(part)
		n -= part
	}
	return nil
}

// append appends n bytes to dst: memory is taken as they come.
func (s *source) append(dst []byte, n uint64) ([]byte, error) {
	for n > 0 {
		if s.pos == s.end {
			if err := s.fill(); err != nil {
				return dst, err
			}
		}
		part := min(n, uint64(s.end-s.pos))
		dst = append(dst, s.buf[s.pos:s.pos+int(part)]...)
		s.pos += int(part)
		n -= part
	}
	return dst, nil
}

// Kinds of strings that are no plain bytes.
const (
	packedInt8 = iota
	packedInt16
	packedInt32
	packedLZF
)

// length reads a length, or with packed the kind of a string.
//
//	00nnnnnn                  n
//	01nnnnnn nnnnnnnn         n
//	10000000 + 4 bytes BE     n
//	10000001 + 8 bytes BE     n
//	11kkkkkk                  kind k
func (s *source) length() (n uint64, packed bool, err error) {
	first, err := s.byte()
	if err != nil {
		return 0, false, err
	}
	switch {
	case first>>6 == 0:
		return uint64(first), false, nil
	case first>>6 == 1:
		second, err := s.byte()
		return uint64(first&0x3f)<<8 | uint64(second), false, err
	case first == 0x80:
		b, err := s.bytes(4)
		if err != nil {
			return 0, false, err
		}
		return uint64(binary.BigEndian.Uint32(b)), false, nil
	case first == 0x81:
		b, err := s.bytes(8)
		if err != nil {
			return 0, false, err
		}
		return binary.BigEndian.Uint64(b), false, nil
	case first>>6 == 3:
		return uint64(first & 0x3f), true, nil
	}
	return 0, false, s.corrupt("a length that begins with %#02x", first)
}

// count reads a length that is one.
func (s *source) count() (uint64, error) {
	n, packed, err := s.length()
	if err == nil && packed {
		err = s.corrupt("a packed string, want a number")
	}
	return n, err
}

// string reads a string into dst's memory. One above the limit is passed over: ok is false.
func (s *source) string(dst []byte) (b []byte, ok bool, err error) {
	n, packed, err := s.length()
	if err != nil {
		return nil, false, err
	}
	if !packed {
		if n > s.limit {
			return nil, false, s.pass(n)
		}
		b, err = s.append(dst[:0], n)
		return b, err == nil, err
	}
	switch n {
	case packedInt8, packedInt16, packedInt32:
		v, err := s.integer(n)
		return strconv.AppendInt(dst[:0], v, 10), err == nil, err
	case packedLZF:
		return s.lzf(dst)
	}
	return nil, false, s.corrupt("a string of kind %d", n)
}

func (s *source) integer(kind uint64) (int64, error) {
	b, err := s.bytes(1 << kind)
	if err != nil {
		return 0, err
	}
	switch kind {
	case packedInt8:
		return int64(int8(b[0])), nil
	case packedInt16:
		return int64(int16(binary.LittleEndian.Uint16(b))), nil
	}
	return int64(int32(binary.LittleEndian.Uint32(b))), nil
}

// lzf reads a compressed string: its bytes, those that it makes, then itself.
func (s *source) lzf(dst []byte) (b []byte, ok bool, err error) {
	packed, err := s.count()
	if err != nil {
		return nil, false, err
	}
	size, err := s.count()
	if err != nil {
		return nil, false, err
	}
	if packed > s.limit || size > s.limit {
		return nil, false, s.pass(packed)
	}
	text, err := s.append(nil, packed)
	if err != nil {
		return nil, false, err
	}
	if b, ok = unpackLZF(dst[:0], text, int(size)); !ok {
		return nil, false, s.corrupt("%d bytes that are no compressed string of %d", packed, size)
	}
	return b, true, nil
}

// passString passes a string over.
func (s *source) passString() error {
	n, packed, err := s.length()
	if err != nil {
		return err
	}
	if packed {
		switch n {
		case packedInt8, packedInt16, packedInt32:
			n = 1 << n
		case packedLZF:
			if n, err = s.count(); err != nil {
				return err
			}
			if _, err = s.count(); err != nil {
				return err
			}
		default:
			return s.corrupt("a string of kind %d", n)
		}
	}
	return s.pass(n)
}
