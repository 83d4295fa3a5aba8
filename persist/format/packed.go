package format

import (
	"encoding/binary"
)

// A packed segment is a segment file with the same frames, compressed: what is kept of the log only for replicas that
// come back and for restores. It has the name that the segment had, whose place it takes in one step (logfile/pack.go):
//
//	+--------+---------+---------+- ... -+-------+--------+
//	| header | chunk 0 | chunk 1 |       | index | footer |
//	+--------+---------+---------+- ... -+-------+--------+
//
//	header: that of a segment (segment.go), with version 6 and flag 2. durable is the log offset where the segment
//	ends, as all of it is durable. capacity is one byte more at least than the segment would have unpacked, 64 bytes
//	of header and the frames: so the segment has one behind it, or something is missing. In an archive it is what the
//	segment has, as the last one there may be packed.
//
//	chunk: frames, see chunk.go
//
//	index: of each chunk
//	 0        8        16
//	+--------+--------+
//	| start  | at     |
//	+--------+--------+
//	 u64      u64
//
//	footer
//	 0        8        12       16       20       28
//	+--------+--------+--------+--------+--------+
//	| index  | chunks | zeros  | crc32c | magic  |
//	+--------+--------+--------+--------+--------+
//	 u64      u32      u32      u32
//
// Little-endian. start is the log offset where a chunk begins, at its place in the file; the next chunk begins where one
// ends. index is the place of the index in the file, and chunks its entries. crc32c covers the index and the 16 bytes of
// the footer before it.
//
// Any offset is found by the index and one chunk. Damage of a chunk costs its frames, and no others. Without the index
// chunks are found by their headers, one behind the other: then a second damage, in the header of a chunk, costs all
// behind it.
const (
	PackedVersion    = 6
	segmentFlagPack  = 2
	PackedMagic      = "CTRDPAK\n"
	PackedEntryLen   = 16
	PackedFooterLen  = 28
	PackedFooterKeep = 16 // bytes of the footer that its crc32c covers
)

// PackedChunk is where a chunk of a packed segment lies.
type PackedChunk struct {
	Start uint64 // log offset
	At    int64  // in the file
}

// AppendPackedIndex appends index and footer of a file whose chunks end at a place.
func AppendPackedIndex(dst []byte, chunks []PackedChunk, end int64) []byte {
	n := len(dst)
	for _, b := range chunks {
		dst = binary.LittleEndian.AppendUint64(dst, b.Start)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.At))
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(end))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(chunks)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, Checksum(dst[n:]))
	return append(dst, PackedMagic...)
}

// AppendPackedHeader appends the header of a packed segment that ends at a log offset. full is its length unpacked, as
// it stands in an archive; otherwise the segment is one that another follows.
func AppendPackedHeader(dst []byte, h SegmentHeader, end uint64, archived bool) []byte {
	n := len(dst)
	length := uint32(SegmentHeaderLen + end - h.Start)
	h.Durable = end
	if archived {
		h.Size = length
	} else {
		h.Size = max(h.Size, length+1)
	}
	dst = h.AppendTo(dst)
	b := dst[n:]
	binary.LittleEndian.PutUint16(b[8:], PackedVersion)
	binary.LittleEndian.PutUint16(b[10:], binary.LittleEndian.Uint16(b[10:])|segmentFlagPack)
	binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
	return dst
}

// IsPackedHeader tells whether the first bytes of a file are the whole header of a packed segment.
func IsPackedHeader(b []byte) bool {
	if len(b) < SegmentHeaderLen || string(b[:8]) != segmentMagic {
		return false
	}
	return binary.LittleEndian.Uint16(b[8:]) == PackedVersion &&
		binary.LittleEndian.Uint16(b[10:])&segmentFlagPack != 0 && binary.LittleEndian.Uint32(b[60:]) == Checksum(b[:60])
}

// RawSegmentHeader makes the header of a packed segment that of the segment unpacked, in place.
func RawSegmentHeader(b []byte) {
	binary.LittleEndian.PutUint16(b[8:], SegmentVersion)
	binary.LittleEndian.PutUint16(b[10:], binary.LittleEndian.Uint16(b[10:])&^segmentFlagPack)
	binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
}
