package format

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
)

// ReplID names a history of the log, as Redis's replication id does: two logs with one id have the same bytes at
// the same offsets. It is printed as 40 hexadecimal digits.
type ReplID [20]byte

// String returns the 40 digits.
func (id ReplID) String() string { return hex.EncodeToString(id[:]) }

// ParseReplID is the inverse of String.
func ParseReplID(s string) (id ReplID, err error) {
	if len(s) == 2*len(id) {
		_, err = hex.Decode(id[:], []byte(s))
	}
	if len(s) != 2*len(id) || err != nil {
		return ReplID{}, fmt.Errorf("replication id: want 40 hexadecimal digits, got %q", s)
	}
	return id, nil
}

// History says whose log this is.
type History struct {
	ReplID  ReplID
	Epoch   uint32 // term of the primary; goes into every frame
	Replica bool   // the frames come from a primary, with its durable offsets, not ours
}

// A segment file is a header and frames, then zeros up to its preallocated size:
//
//	 0        8         10      12         16                36       40               48
//	+--------+---------+-------+----------+-----------------+--------+----------------+
//	| magic  | version | flags | capacity | replid          | epoch  | start          |
//	+--------+---------+-------+----------+-----------------+--------+----------------+
//	48               56       60       64
//	+----------------+--------+--------+--------+--------+--
//	| durable        | chain  | crc32c | frame  | frame  | ...
//	+----------------+--------+--------+--------+--------+--
//
// Little-endian. capacity is the preallocated size of the file in bytes. start is the log offset of the first frame and
// the number in the file's name. durable: all bytes of the log below it were durable when the file got its name. chain
// is the crc32c field of the last frame before start, 0 if there was none. crc32c covers the 60 bytes before it. Flag
// 1: written as a replica.
//
// The byte at log offset x is at file offset 64 + x - start. A segment ends where the next one starts; bytes of it
// behind that (zeros, or frames that were written again elsewhere after a disk error) are no part of the log.
//
// A segment has its capacity, durably, before it gets its name, and is cut to what it holds only when the next one has
// its name durably. So a last segment that is shorter was cut by something else: that is corruption. A prepared segment
// has, also durably, a header with start 2^64-1. The right one replaces it, in one sector, when the file gets its name;
// it may be lost in a power failure, but then the prepared one is there. So any other header is corruption too.
const (
	segmentMagic     = "CTRDLOG\n"
	SegmentVersion   = 5 // version 6 is a packed segment: packed.go
	SegmentHeaderLen = 64
	segmentFlagRepl  = 1
	PreparedStart    = math.MaxUint64
)

// SegmentHeader is the decoded header.
type SegmentHeader struct {
	History History
	Start   uint64
	Durable uint64
	Chain   uint32
	Size    uint32 // capacity
}

// AppendTo appends the 64 bytes to dst.
func (h *SegmentHeader) AppendTo(dst []byte) []byte {
	n := len(dst)
	var flags uint16
	if h.History.Replica {
		flags |= segmentFlagRepl
	}
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, SegmentVersion)
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	dst = binary.LittleEndian.AppendUint32(dst, h.Size)
	dst = append(dst, h.History.ReplID[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, h.History.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.Start)
	dst = binary.LittleEndian.AppendUint64(dst, h.Durable)
	dst = binary.LittleEndian.AppendUint32(dst, h.Chain)
	return binary.LittleEndian.AppendUint32(dst, Checksum(dst[n:]))
}

// DecodeSegmentHeader reads the header of the segment file name, whose name says start. Another version gives
// ErrUnsupportedFormat; anything else that is no header gives a fault.
func DecodeSegmentHeader(b []byte, name string, start uint64) (h SegmentHeader, fault *Fault, err error) {
	if len(b) < SegmentHeaderLen {
		return h, &Fault{Want: "a segment header of 64 bytes", Got: fmt.Sprintf("%d bytes", len(b))}, nil
	}
	b = b[:SegmentHeaderLen]
	if string(b[:8]) != segmentMagic {
		got := fmt.Sprintf("%q", b[:8])
		if AllZero(b) {
			got = "zeros"
		}
		return h, &Fault{Want: fmt.Sprintf("segment magic %q", segmentMagic), Got: got}, nil
	}
	want, got := binary.LittleEndian.Uint32(b[60:]), Checksum(b[:60])
	if want != got {
		return h, &Fault{Want: fmt.Sprintf("header crc32c %08x", want), Got: fmt.Sprintf("%08x", got)}, nil
	}
	// Only a whole header may claim a version: a damaged one must not pass for a newer one. A newer version
	// keeps magic, version and a crc32c in the last 4 of its first 64 bytes.
	v, flags := binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	if v == PackedVersion && flags&segmentFlagPack == 0 {
		return h, &Fault{Want: fmt.Sprintf("the flag of a packed segment, as the version is %d", v), Got: fmt.Sprintf("flags %#x", flags)}, nil
	}
	if v != SegmentVersion {
		return h, nil, &VersionError{File: name, Found: uint32(v), Oldest: SegmentVersion, Newest: PackedVersion}
	}
	if flags&^segmentFlagRepl != 0 {
		return h, nil, fmt.Errorf("%s: unknown segment flags %#x: %w", name, flags, ErrUnsupportedFormat)
	}
	h.History.Replica = flags&segmentFlagRepl != 0
	h.Size = binary.LittleEndian.Uint32(b[12:])
	copy(h.History.ReplID[:], b[16:])
	h.History.Epoch = binary.LittleEndian.Uint32(b[36:])
	h.Start = binary.LittleEndian.Uint64(b[40:])
	h.Durable = binary.LittleEndian.Uint64(b[48:])
	h.Chain = binary.LittleEndian.Uint32(b[56:])
	if h.Start == PreparedStart {
		return h, &Fault{Want: "the segment's header", Got: "a prepared one", Empty: true}, nil
	}
	if h.Start != start {
		return h, &Fault{Want: fmt.Sprintf("start %d as in the file's name", start), Got: fmt.Sprintf("start %d", h.Start)}, nil
	}
	return h, nil, nil
}

// NewReplID returns a random history id.
func NewReplID() (id ReplID) {
	for i := range id {
		id[i] = byte(rand.Uint32()) // runtime-seeded ChaCha8; ids need to differ, not to be secret
	}
	return id
}
