package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// castagnoli is CRC32C, which amd64 and arm64 compute in hardware.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

func Checksum(b []byte) uint32 { return crc32.Checksum(b, Castagnoli) }

// A frame is what one group commit wrote: a header and the records of every batch that shared it.
//
//	 0        4        8                16               24               32       36
//	+--------+--------+----------------+----------------+----------------+--------+-----------+
//	| crc32c | length | start          | durable        | time           | epoch  | records   |
//	+--------+--------+----------------+----------------+----------------+--------+-----------+
//	  u32      u32      u64              u64              i64              u32      length bytes
//
// Little-endian. crc32c covers everything behind it. length counts the records' bytes; its highest bit says that they
// are one change: whoever reads data while the log is applied must see all of it or
// none. start is the log offset of the frame's first byte. durable is the offset up to which the log was durable on the
// node that made the frame: a frame damaged before that offset is corruption, not a torn tail. time is wall time in ms
// since 1970: for people and restore to a time, never for decisions. epoch is the term of the primary that made the
// frame.
//
// 36 zero bytes are no frame (crc32c of 32 zero bytes is not 0), so that the zero tail of a preallocated segment is
// told from a frame.
const (
	// FrameHeaderLen is the size of a frame's header.
	FrameHeaderLen = 36

	// MaxFramePayload is the most bytes of records in a frame: it bounds what a length field can make a reader allocate.
	// Writers stay below it: a frame ends with its chunk (chunkLen), or holds one Append of at most MaxAppend bytes.
	MaxFramePayload = 4 << 20

	// wholeFlag is the bit of length that makes a frame one change.
	wholeFlag = 1 << 31
)

// FrameHeader is the decoded header of a frame.
type FrameHeader struct {
	CRC     uint32
	Length  uint32 // bytes of records
	Whole   bool   // they are one change, of MULTI/EXEC for one
	Start   uint64 // log offset of the frame
	Durable uint64 // durable offset of the maker when it made the frame
	TimeMS  int64  // wall time, ms since 1970
	Epoch   uint32
}

// End returns the log offset behind the frame.
func (h *FrameHeader) End() uint64 { return h.Start + FrameHeaderLen + uint64(h.Length) }

// Frame is one verified frame. Raw and Payload are valid until the next call of the reader that returned the frame.
type Frame struct {
	FrameHeader
	Raw     []byte // header and records, as on disk and on the wire
	Payload []byte // records
}

// Records decodes the records that end behind the log offset after, and calls fn with the offset behind each. rec is
// reused. An error of fn ends it and is returned as it is.
func (f *Frame) Records(rec *Record, after uint64, fn func(pos uint64, rec *Record) error) error {
	pos := f.Start + FrameHeaderLen
	for src := f.Payload; len(src) > 0; {
		n, err := DecodeRecord(src, rec)
		if err != nil {
			return fmt.Errorf("log offset %d: %w", pos, err)
		}
		src = src[n:]
		pos += uint64(n)
		if pos <= after {
			continue
		}
		rec.TimeMS = f.TimeMS
		if err := fn(pos, rec); err != nil {
			return err
		}
	}
	return nil
}

// Cut returns a frame, header included, of the records that end at or before a log offset; nil if there are none. A once
// record is cut together with its change. A frame that is one change is cut whole, as no reader ever saw a part of it. A
// once with no record behind it is cut too: if it had no change, repeating it changes nothing.
func (f *Frame) Cut(at uint64) ([]byte, error) {
	if f.Whole {
		return nil, nil
	}
	end := f.Start
	var rec Record
	err := f.Records(&rec, 0, func(pos uint64, rec *Record) error {
		if pos > at {
			return io.EOF
		}
		if rec.Kind != KindOnce {
			end = pos
		}
		return nil
	})
	if err != nil && err != io.EOF {
		return nil, err
	}
	if end == f.Start {
		return nil, nil
	}
	raw := append([]byte(nil), f.Raw[:end-f.Start]...)
	PutFrameHeader(raw, false, f.Start, f.Durable, f.TimeMS, f.Epoch)
	return raw, nil
}

// PutFrameHeader writes the header of the frame raw, whose records are in place, and seals it with its checksum.
func PutFrameHeader(raw []byte, whole bool, start, durable uint64, timeMS int64, epoch uint32) {
	length := uint32(len(raw) - FrameHeaderLen)
	if whole {
		length |= wholeFlag
	}
	binary.LittleEndian.PutUint32(raw[4:], length)
	binary.LittleEndian.PutUint64(raw[8:], start)
	binary.LittleEndian.PutUint64(raw[16:], durable)
	binary.LittleEndian.PutUint64(raw[24:], uint64(timeMS))
	binary.LittleEndian.PutUint32(raw[32:], epoch)
	binary.LittleEndian.PutUint32(raw, Checksum(raw[4:]))
}

// RawFrameLen returns the whole length of the frame at the start of b. REQUIRES: a frame this process made or checked.
func RawFrameLen(b []byte) int { return FrameHeaderLen + int(FramePayloadLen(b)) }

// FramePayloadLen returns how many bytes of records the frame header at the start of b announces: anything up to 2^31,
// as nothing is checked. REQUIRES: a header's bytes.
func FramePayloadLen(b []byte) uint32 { return binary.LittleEndian.Uint32(b[4:]) &^ wholeFlag }

// FrameWhole tells whether the frame header at the start of b says that its records are one change. REQUIRES: a
// header's bytes.
func FrameWhole(b []byte) bool { return binary.LittleEndian.Uint32(b[4:])&wholeFlag != 0 }

// FrameEpoch returns the epoch in the frame header at the start of b, as it stands there. REQUIRES: a header's bytes.
func FrameEpoch(b []byte) uint32 { return binary.LittleEndian.Uint32(b[32:]) }

// FrameTime is the wall time, in ms since 1970, of the frame header at the start of b. REQUIRES: a whole frame header.
func FrameTime(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b[24:])) }

// RawFrameCRC returns the checksum of the frame at the start of b.
func RawFrameCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// Fault says why there is no frame at a place.
type Fault struct {
	Want, Got string
	Need      int  // bytes the frame would need, when it is only cut short; else 0
	Empty     bool // nothing was ever written there: zeros, or a prepared header
}

// DecodeFrame reads the frame at the start of b, which must stand at log offset at. It returns a fault when there is
// none; f is then undefined.
func DecodeFrame(b []byte, at uint64, f *Frame) *Fault {
	if len(b) < FrameHeaderLen {
		return &Fault{Want: "a frame header of 36 bytes", Got: fmt.Sprintf("%d bytes", len(b)), Need: FrameHeaderLen}
	}
	f.FrameHeader = FrameHeader{
		CRC:     binary.LittleEndian.Uint32(b),
		Length:  FramePayloadLen(b),
		Whole:   FrameWhole(b),
		Start:   binary.LittleEndian.Uint64(b[8:]),
		Durable: binary.LittleEndian.Uint64(b[16:]),
		TimeMS:  FrameTime(b),
		Epoch:   binary.LittleEndian.Uint32(b[32:]),
	}
	switch {
	case f.CRC == 0 && AllZero(b[:FrameHeaderLen]):
		return &Fault{Want: "a frame", Got: "zeros", Empty: true}
	case f.Start != at:
		return &Fault{Want: fmt.Sprintf("a frame that starts at %d", at), Got: fmt.Sprintf("start %d", f.Start)}
	case f.Length > MaxFramePayload:
		return &Fault{Want: fmt.Sprintf("at most %d bytes of records", MaxFramePayload), Got: fmt.Sprintf("length %d", f.Length)}
	}
	n := FrameHeaderLen + int(f.Length)
	if len(b) < n {
		return &Fault{Want: fmt.Sprintf("a frame of %d bytes", n), Got: fmt.Sprintf("%d bytes", len(b)), Need: n}
	}
	f.Raw = b[:n:n]
	f.Payload = f.Raw[FrameHeaderLen:]
	if crc := Checksum(f.Raw[4:]); crc != f.CRC {
		return &Fault{Want: fmt.Sprintf("crc32c %08x", f.CRC), Got: fmt.Sprintf("%08x", crc)}
	}
	return nil
}

// FrameHolds returns the log offset at which the frame at the start of b begins. ok is false if no whole frame there holds the log offset at.
func FrameHolds(b []byte, at uint64) (start uint64, ok bool) {
	if len(b) < FrameHeaderLen {
		return 0, false
	}
	var f Frame
	start = binary.LittleEndian.Uint64(b[8:])
	if DecodeFrame(b, start, &f) != nil || at < start || at >= f.End() {
		return 0, false
	}
	return start, true
}

// AllZero reports whether b holds only zeros.
func AllZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// TrimZeros returns b without the zeros at its end. A segment is mostly those when it is opened after a crash, so it
// takes them off a KiB at a time.
func TrimZeros(b []byte) []byte {
	const stride = 1 << 10
	for len(b) > stride && AllZero(b[len(b)-stride:]) {
		b = b[:len(b)-stride]
	}
	return bytes.TrimRight(b, "\x00")
}
