package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// OpenSegmentFile opens a segment file for reading. A packed segment reads as the segment that it was.
func OpenSegmentFile(fsys vfs.FS, s *Segment) (vfs.File, error) {
	file, err := fsys.Open(s.Path)
	if err != nil {
		return nil, err
	}
	p, err := openPacked(file, s.Start)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if p == nil {
		return file, nil
	}
	return p, nil
}

// openPacked returns nil if a segment file is not packed.
func openPacked(file vfs.File, start uint64) (*PackedFile, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	p := &PackedFile{File: file, start: start, current: -1}
	head, err := vfs.ReadAtMost(file, p.head[:], 0)
	if err != nil {
		return nil, err
	}
	if len(head) < format.SegmentHeaderLen {
		return nil, nil
	}
	whole := format.IsPackedHeader(head)
	if !whole && size >= format.SegmentHeaderLen+format.PackedFooterLen {
		// A header that is damaged must not hide the chunks: the last bytes tell as well.
		var h format.SegmentHeader
		var fault *format.Fault
		if h, fault, err = format.DecodeSegmentHeader(head, file.Name(), start); err != nil || fault == nil && h.Start == start {
			return nil, nil // the reader finds out
		}
		var magic [len(format.PackedMagic)]byte
		if b, err := vfs.ReadAtMost(file, magic[:], size-int64(len(magic))); err != nil || string(b) != format.PackedMagic {
			return nil, err
		}
	} else if !whole {
		return nil, nil
	}
	until := uint64(0) // what the header says
	if whole {
		until = binary.LittleEndian.Uint64(head[48:])
		format.RawSegmentHeader(head)
	}
	return p, p.loadChunks(size, until)
}

// loadChunks finds the chunks, by the index or, where it is damaged, by their headers. until is where the log in the
// file ends, 0 if that is not known.
func (p *PackedFile) loadChunks(size int64, until uint64) error {
	fault, err := p.loadIndex(size, until)
	if err != nil || fault == nil {
		return err
	}
	p.indexFault = fault
	return p.scanChunks(size, until)
}

// loadIndex reads index and footer.
func (p *PackedFile) loadIndex(size int64, until uint64) (fault *format.Fault, err error) {
	bad := func(want, got any) (*format.Fault, error) {
		return &format.Fault{Want: fmt.Sprint(want, " in the index of a packed segment"), Got: fmt.Sprint(got)}, nil
	}
	if size < format.SegmentHeaderLen+format.PackedFooterLen {
		return bad("a footer", fmt.Sprintf("%d bytes in all", size))
	}
	footer, err := vfs.ReadAtMost(p.File, make([]byte, format.PackedFooterLen), size-format.PackedFooterLen)
	if err != nil {
		return nil, err
	}
	if len(footer) < format.PackedFooterLen || string(footer[format.PackedFooterKeep+4:]) != format.PackedMagic {
		return bad(fmt.Sprintf("magic %q", format.PackedMagic), fmt.Sprintf("%q", footer[min(len(footer), format.PackedFooterKeep+4):]))
	}
	index, n := binary.LittleEndian.Uint64(footer), uint64(binary.LittleEndian.Uint32(footer[8:]))
	if index < format.SegmentHeaderLen || index > uint64(size) || n == 0 || index+n*format.PackedEntryLen+format.PackedFooterLen != uint64(size) {
		return bad(fmt.Sprintf("entries in %d bytes", size), fmt.Sprintf("%d at %d", n, index))
	}
	b, err := vfs.ReadAtMost(p.File, make([]byte, n*format.PackedEntryLen+format.PackedFooterKeep), int64(index)) // no more than the file has
	if err != nil {
		return nil, err
	}
	if want, got := binary.LittleEndian.Uint32(footer[format.PackedFooterKeep:]), format.Checksum(b); want != got {
		return bad(fmt.Sprintf("crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	chunks := make([]format.PackedChunk, n)
	for i := range chunks {
		chunks[i] = format.PackedChunk{Start: binary.LittleEndian.Uint64(b[i*format.PackedEntryLen:]), At: int64(binary.LittleEndian.Uint64(b[i*format.PackedEntryLen+8:]))}
	}
	if chunks[0] != (format.PackedChunk{Start: p.start, At: format.SegmentHeaderLen}) {
		return bad(fmt.Sprintf("a first chunk at %d of offset %d", format.SegmentHeaderLen, p.start), fmt.Sprint(chunks[0]))
	}
	for i := 1; i < len(chunks); i++ {
		a, b := chunks[i-1], chunks[i]
		if b.Start <= a.Start || b.Start-a.Start > format.MaxPackRaw || b.At <= a.At+format.ChunkHeaderLen || b.At-a.At > format.ChunkHeaderLen+format.MaxPackStored {
			return bad("chunks one behind the other", fmt.Sprint(a, b))
		}
	}
	last := chunks[n-1]
	if int64(index) <= last.At+format.ChunkHeaderLen || int64(index)-last.At > format.ChunkHeaderLen+format.MaxPackStored {
		return bad("a last chunk", fmt.Sprint(last))
	}
	if until == 0 { // the last chunk's header knows
		h, fault, err := p.chunkHeader(last)
		if err != nil || fault != nil {
			return fault, err
		}
		until = h.Start + uint64(h.Raw)
	}
	if until <= last.Start || until-last.Start > format.MaxPackRaw {
		return bad(fmt.Sprintf("an end at %d", until), fmt.Sprint(last))
	}
	p.Chunks, p.end, p.index = chunks, until, int64(index)
	return nil, nil
}

// scanChunks finds the chunks by their headers. What lies behind the first bad one, up to until, belongs to the chunk
// before the next that was found: none.
func (p *PackedFile) scanChunks(size int64, until uint64) error {
	p.Chunks, p.end, p.index = nil, p.start, format.SegmentHeaderLen
	for p.index+format.ChunkHeaderLen < size {
		h, fault, err := p.chunkHeader(format.PackedChunk{Start: p.end, At: p.index})
		if err != nil {
			return err
		}
		if fault != nil {
			break
		}
		p.Chunks = append(p.Chunks, format.PackedChunk{Start: p.end, At: p.index})
		p.end += uint64(h.Raw)
		p.index += format.ChunkHeaderLen + int64(h.Stored)
	}
	if p.index = min(p.index, size); until > p.end && until-p.end < MaxSegment { // what no chunk holds is damage
		p.Chunks = append(p.Chunks, format.PackedChunk{Start: p.end, At: p.index})
		p.end, p.index = until, size
	}
	return nil
}

// chunkHeader reads the header of the chunk at a place.
func (p *PackedFile) chunkHeader(b format.PackedChunk) (h format.ChunkHeader, fault *format.Fault, err error) {
	head, err := vfs.ReadAtMost(p.File, make([]byte, format.ChunkHeaderLen), b.At)
	if err != nil {
		return h, nil, err
	}
	if h, fault = format.DecodeChunkHeader(head); fault == nil && h.Start != b.Start {
		fault = &format.Fault{Want: fmt.Sprintf("a packed chunk of log offset %d", b.Start), Got: fmt.Sprint(h.Start)}
	}
	return h, fault, nil
}
