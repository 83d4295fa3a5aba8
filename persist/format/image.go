package format

import (
	"encoding/binary"
)

// An image file holds one block as it was at one log offset. The payload is the engine's; here it is bytes.
//
//	 0       8        12     16       20       24      32    40    48      56      64        72   76       80
//	+-------+--------+------+--------+--------+-------+-----+-----+-------+-------+---------+----+--------+
//	| magic | version| kind | counter| chunk  | block | lo  | hi  | offset| items | payload | 0  | crc32c |
//	+-------+--------+------+--------+--------+-------+-----+-----+-------+-------+---------+----+--------+
//	| payload, "payload" bytes                                                                            |
//	+-----------------------------------------------------------------------------------------------------+
//	| crc32c of each "chunk" bytes of it, u32 each        | file size u64 | end magic u64 | crc32c u32    |
//	+-----------------------------------------------------------------------------------------------------+
//
// Little-endian. The header's crc32c covers the 76 bytes before it, the last one header, table, file size and end
// magic: it identifies the content. Chunk checksums stand in a table so that the payload is one piece, read straight
// to where it will live. Items with lo <= mid < hi are in the block; offset is the log offset it stands at.
//
// Kinds 0 and 1 are of version 1, so that programs that know no more can read them; kinds from 2 on are of version 2.
const (
	ImageMagic     = "CTRDIMG\n"
	ImageEndMagic  = "CTRDEND\n"
	ImageVersion   = 2
	ImageHeaderLen = 80
	ImageFooterLen = 20
	ImageChunkLen  = 1 << 20 // one read and one checksum; fits the second-level cache
)

// ImageHeader says which block at which time an image holds.
type ImageHeader struct {
	Kind    uint32 // the engine's: how to read the payload
	Counter uint32
	Block   uint64 // id
	Lo, Hi  uint64 // range of mids, Hi exclusive
	Offset  uint64 // log offset: all records that end at or before it are in the image
	Items   uint64
}

// ImageInfo is a header with what identifies the file.
type ImageInfo struct {
	ImageHeader
	Name  string // base name
	Bytes uint64 // file size
	CRC   uint32 // of the whole content
}

func AppendImageHeader(dst []byte, h *ImageHeader, length uint64) []byte {
	n := len(dst)
	dst = append(dst, ImageMagic...)
	version := uint32(1)
	if h.Kind > 1 {
		version = ImageVersion
	}
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, h.Kind)
	dst = binary.LittleEndian.AppendUint32(dst, h.Counter)
	dst = binary.LittleEndian.AppendUint32(dst, ImageChunkLen)
	for _, v := range [...]uint64{h.Block, h.Lo, h.Hi, h.Offset, h.Items, length} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	return binary.LittleEndian.AppendUint32(dst, Checksum(dst[n:]))
}

// ChunkCount returns how many chunks a payload has.
func ChunkCount(length, chunk uint64) uint64 {
	n := length / chunk
	if length%chunk != 0 {
		n++
	}
	return n
}

// ImageSize returns the size of the file.
func ImageSize(length, chunk uint64) int64 {
	return int64(ImageHeaderLen + length + 4*ChunkCount(length, chunk) + ImageFooterLen)
}
