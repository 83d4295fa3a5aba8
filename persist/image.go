package persist

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/counterd/counterd/persist/vfs"
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
	imageMagic     = "CTRDIMG\n"
	imageEndMagic  = "CTRDEND\n"
	imageVersion   = 2
	imageHeaderLen = 80
	imageFooterLen = 20
	imageChunkLen  = 1 << 20 // one read and one checksum; fits the second-level cache
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

// imageWriter writes one image file. After the first error it does nothing.
type imageWriter struct {
	file vfs.File
	off  int64
	crc  uint32 // of the content, when all is written
	err  error
}

func (w *imageWriter) put(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	_, w.err = w.file.WriteAt(b, w.off)
	w.off += int64(len(b))
}

func (w *imageWriter) write(h ImageHeader, parts [][]byte) {
	var length uint64
	for _, p := range parts {
		length += uint64(len(p))
	}
	header := appendImageHeader(nil, &h, length)
	w.err = w.file.Preallocate(imageSize(length, imageChunkLen))
	w.put(header)
	table := make([]byte, 0, 4*chunkCount(length, imageChunkLen)+imageFooterLen)
	crc, n := uint32(0), 0 // of the chunk so far, and its bytes
	for _, p := range parts {
		w.put(p)
		for len(p) > 0 {
			m := min(len(p), imageChunkLen-n)
			crc = crc32.Update(crc, castagnoli, p[:m])
			p, n = p[m:], n+m
			if n == imageChunkLen {
				table = binary.LittleEndian.AppendUint32(table, crc)
				crc, n = 0, 0
			}
		}
	}
	if n > 0 {
		table = binary.LittleEndian.AppendUint32(table, crc)
	}
	end := binary.LittleEndian.AppendUint64(table, uint64(imageSize(length, imageChunkLen)))
	end = append(end, imageEndMagic...)
	w.crc = crc32.Update(crc32c(header), castagnoli, end)
	w.put(binary.LittleEndian.AppendUint32(end, w.crc))
}

func appendImageHeader(dst []byte, h *ImageHeader, length uint64) []byte {
	n := len(dst)
	dst = append(dst, imageMagic...)
	version := uint32(1)
	if h.Kind > 1 {
		version = imageVersion
	}
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, h.Kind)
	dst = binary.LittleEndian.AppendUint32(dst, h.Counter)
	dst = binary.LittleEndian.AppendUint32(dst, imageChunkLen)
	for _, v := range [...]uint64{h.Block, h.Lo, h.Hi, h.Offset, h.Items, length} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	return binary.LittleEndian.AppendUint32(dst, crc32c(dst[n:]))
}

// chunkCount returns how many chunks a payload has.
func chunkCount(length, chunk uint64) uint64 {
	n := length / chunk
	if length%chunk != 0 {
		n++
	}
	return n
}

// imageSize returns the size of the file.
func imageSize(length, chunk uint64) int64 {
	return int64(imageHeaderLen + length + 4*chunkCount(length, chunk) + imageFooterLen)
}
