package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist/vfs"
)

// A packed segment is a segment file with the same frames, compressed: what is kept of the log only for replicas that
// come back and for restores. It has the name that the segment had, whose place it takes in one step (pack.go):
//
//	+--------+---------+---------+- ... -+-------+--------+
//	| header | block 0 | block 1 |       | index | footer |
//	+--------+---------+---------+- ... -+-------+--------+
//
//	header: that of a segment (segment.go), with version 6 and flag 2. durable is the log offset where the segment
//	ends, as all of it is durable. capacity is one byte more at least than the segment would have unpacked, 64 bytes
//	of header and the frames: so the segment has one behind it, or something is missing. In an archive it is what the
//	segment has, as the last one there may be packed.
//
//	block: frames, see packblock.go
//
//	index: of each block
//	 0        8        16
//	+--------+--------+
//	| start  | at     |
//	+--------+--------+
//	 u64      u64
//
//	footer
//	 0        8        12       16       20       28
//	+--------+--------+--------+--------+--------+
//	| index  | blocks | zeros  | crc32c | magic  |
//	+--------+--------+--------+--------+--------+
//	 u64      u32      u32      u32
//
// Little-endian. start is the log offset where a block begins, at its place in the file; the next block begins where one
// ends. index is the place of the index in the file, and blocks its entries. crc32c covers the index and the 16 bytes of
// the footer before it.
//
// Any offset is found by the index and one block. Damage of a block costs its frames, and no others. Without the index
// blocks are found by their headers, one behind the other: then a second damage, in the header of a block, costs all
// behind it.
const (
	packedVersion    = 6
	segmentFlagPack  = 2
	packedMagic      = "CTRDPAK\n"
	packedEntryLen   = 16
	packedFooterLen  = 28
	packedFooterKeep = 16 // bytes of the footer that its crc32c covers
)

// packedBlock is where a block of a packed segment lies.
type packedBlock struct {
	start uint64 // log offset
	at    int64  // in the file
}

// appendPackedIndex appends index and footer of a file whose blocks end at a place.
func appendPackedIndex(dst []byte, blocks []packedBlock, end int64) []byte {
	n := len(dst)
	for _, b := range blocks {
		dst = binary.LittleEndian.AppendUint64(dst, b.start)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.at))
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(end))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(blocks)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, crc32c(dst[n:]))
	return append(dst, packedMagic...)
}

// appendPackedHeader appends the header of a packed segment that ends at a log offset. full is its length unpacked, as
// it stands in an archive; otherwise the segment is one that another follows.
func appendPackedHeader(dst []byte, h segmentHeader, end uint64, archived bool) []byte {
	n := len(dst)
	length := uint32(segmentHeaderLen + end - h.start)
	h.durable = end
	if archived {
		h.size = length
	} else {
		h.size = max(h.size, length+1)
	}
	dst = h.appendTo(dst)
	b := dst[n:]
	binary.LittleEndian.PutUint16(b[8:], packedVersion)
	binary.LittleEndian.PutUint16(b[10:], binary.LittleEndian.Uint16(b[10:])|segmentFlagPack)
	binary.LittleEndian.PutUint32(b[60:], crc32c(b[:60]))
	return dst
}

// isPackedHeader tells whether the first bytes of a file are the whole header of a packed segment.
func isPackedHeader(b []byte) bool {
	if len(b) < segmentHeaderLen || string(b[:8]) != segmentMagic {
		return false
	}
	return binary.LittleEndian.Uint16(b[8:]) == packedVersion &&
		binary.LittleEndian.Uint16(b[10:])&segmentFlagPack != 0 && binary.LittleEndian.Uint32(b[60:]) == crc32c(b[:60])
}

// rawSegmentHeader makes the header of a packed segment that of the segment unpacked, in place.
func rawSegmentHeader(b []byte) {
	binary.LittleEndian.PutUint16(b[8:], segmentVersion)
	binary.LittleEndian.PutUint16(b[10:], binary.LittleEndian.Uint16(b[10:])&^segmentFlagPack)
	binary.LittleEndian.PutUint32(b[60:], crc32c(b[:60]))
}

// openSegmentFile opens a segment file for reading. One that is packed shows itself as the segment that it was.
func openSegmentFile(fsys vfs.FS, s *segment) (vfs.File, error) {
	file, err := fsys.Open(s.path)
	if err != nil {
		return nil, err
	}
	p, err := openPacked(file, s.start)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if p == nil {
		return file, nil
	}
	return p, nil
}

// openPacked returns nil if a segment file is not packed.
func openPacked(file vfs.File, start uint64) (*packedFile, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	p := &packedFile{File: file, start: start, current: -1}
	head, err := readAtMost(file, p.head[:], 0)
	if err != nil {
		return nil, err
	}
	if len(head) < segmentHeaderLen {
		return nil, nil
	}
	whole := isPackedHeader(head)
	if !whole && size >= segmentHeaderLen+packedFooterLen {
		// A header that is damaged must not hide the blocks: the last bytes tell as well.
		var h segmentHeader
		var fault *frameFault
		if h, fault, err = decodeSegmentHeader(head, file.Name(), start); err != nil || fault == nil && h.start == start {
			return nil, nil // the reader finds out
		}
		var magic [len(packedMagic)]byte
		if b, err := readAtMost(file, magic[:], size-int64(len(magic))); err != nil || string(b) != packedMagic {
			return nil, err
		}
	} else if !whole {
		return nil, nil
	}
	until := uint64(0) // what the header says
	if whole {
		until = binary.LittleEndian.Uint64(head[48:])
		rawSegmentHeader(head)
	}
	return p, p.loadBlocks(size, until)
}

// loadBlocks finds the blocks, by the index or, where it is damaged, by their headers. until is where the log in the
// file ends, 0 if that is not known.
func (p *packedFile) loadBlocks(size int64, until uint64) error {
	fault, err := p.loadIndex(size, until)
	if err != nil || fault == nil {
		return err
	}
	p.indexFault = fault
	return p.scanBlocks(size, until)
}

// loadIndex reads index and footer.
func (p *packedFile) loadIndex(size int64, until uint64) (fault *frameFault, err error) {
	bad := func(want, got any) (*frameFault, error) {
		return &frameFault{want: fmt.Sprint(want, " in the index of a packed segment"), got: fmt.Sprint(got)}, nil
	}
	if size < segmentHeaderLen+packedFooterLen {
		return bad("a footer", fmt.Sprintf("%d bytes in all", size))
	}
	footer, err := readAtMost(p.File, make([]byte, packedFooterLen), size-packedFooterLen)
	if err != nil {
		return nil, err
	}
	if len(footer) < packedFooterLen || string(footer[packedFooterKeep+4:]) != packedMagic {
		return bad(fmt.Sprintf("magic %q", packedMagic), fmt.Sprintf("%q", footer[min(len(footer), packedFooterKeep+4):]))
	}
	index, n := binary.LittleEndian.Uint64(footer), uint64(binary.LittleEndian.Uint32(footer[8:]))
	if index < segmentHeaderLen || index > uint64(size) || n == 0 || index+n*packedEntryLen+packedFooterLen != uint64(size) {
		return bad(fmt.Sprintf("entries in %d bytes", size), fmt.Sprintf("%d at %d", n, index))
	}
	b, err := readAtMost(p.File, make([]byte, n*packedEntryLen+packedFooterKeep), int64(index)) // no more than the file has
	if err != nil {
		return nil, err
	}
	if want, got := binary.LittleEndian.Uint32(footer[packedFooterKeep:]), crc32c(b); want != got {
		return bad(fmt.Sprintf("crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	blocks := make([]packedBlock, n)
	for i := range blocks {
		blocks[i] = packedBlock{binary.LittleEndian.Uint64(b[i*packedEntryLen:]), int64(binary.LittleEndian.Uint64(b[i*packedEntryLen+8:]))}
	}
	if blocks[0] != (packedBlock{p.start, segmentHeaderLen}) {
		return bad(fmt.Sprintf("a first block at %d of offset %d", segmentHeaderLen, p.start), fmt.Sprint(blocks[0]))
	}
	for i := 1; i < len(blocks); i++ {
		a, b := blocks[i-1], blocks[i]
		if b.start <= a.start || b.start-a.start > maxPackRaw || b.at <= a.at+packBlockHeaderLen || b.at-a.at > packBlockHeaderLen+maxPackStored {
			return bad("blocks one behind the other", fmt.Sprint(a, b))
		}
	}
	last := blocks[n-1]
	if int64(index) <= last.at+packBlockHeaderLen || int64(index)-last.at > packBlockHeaderLen+maxPackStored {
		return bad("a last block", fmt.Sprint(last))
	}
	if until == 0 { // the last block's header knows
		h, fault, err := p.blockHeader(last)
		if err != nil || fault != nil {
			return fault, err
		}
		until = h.start + uint64(h.raw)
	}
	if until <= last.start || until-last.start > maxPackRaw {
		return bad(fmt.Sprintf("an end at %d", until), fmt.Sprint(last))
	}
	p.blocks, p.end, p.index = blocks, until, int64(index)
	return nil, nil
}

// scanBlocks finds the blocks by their headers. What lies behind the first bad one, up to until, belongs to the block
// before the next that was found: none.
func (p *packedFile) scanBlocks(size int64, until uint64) error {
	p.blocks, p.end, p.index = nil, p.start, segmentHeaderLen
	for p.index+packBlockHeaderLen < size {
		h, fault, err := p.blockHeader(packedBlock{p.end, p.index})
		if err != nil {
			return err
		}
		if fault != nil {
			break
		}
		p.blocks = append(p.blocks, packedBlock{p.end, p.index})
		p.end += uint64(h.raw)
		p.index += packBlockHeaderLen + int64(h.stored)
	}
	if p.index = min(p.index, size); until > p.end && until-p.end < maxSegment { // what no block holds is damage
		p.blocks = append(p.blocks, packedBlock{p.end, p.index})
		p.end, p.index = until, size
	}
	return nil
}

// blockHeader reads the header of the block at a place.
func (p *packedFile) blockHeader(b packedBlock) (h packBlockHeader, fault *frameFault, err error) {
	head, err := readAtMost(p.File, make([]byte, packBlockHeaderLen), b.at)
	if err != nil {
		return h, nil, err
	}
	if h, fault = decodePackBlockHeader(head); fault == nil && h.start != b.start {
		fault = &frameFault{want: fmt.Sprintf("a packed block of log offset %d", b.start), got: fmt.Sprint(h.start)}
	}
	return h, fault, nil
}
