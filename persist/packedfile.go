package persist

import (
	"fmt"
	"io"
	"sort"

	"github.com/counterd/counterd/persist/vfs"
)

// packedFile shows a packed segment as the segment file that it was, so that whoever reads the log need not know:
// header, frames, no padding. A block that is damaged shows as bytes that are no frame, and damage tells why; the rest
// of the file is not touched by it. It keeps the block that was read last. NOT safe for concurrent use.
//
// Invariant: blocks are in order, the first at start; each ends where the next begins, the last at end and at index.
type packedFile struct {
	vfs.File   // as it is on disk
	head       [segmentHeaderLen]byte
	start, end uint64 // log offsets
	blocks     []packedBlock
	index      int64       // where the blocks end
	indexFault *frameFault // the blocks had to be found by their headers

	current  int                 // block in raw, -1: none
	raw      []byte              // its frames
	faults   map[int]*frameFault // of damaged blocks that were read
	stored   []byte
	unpacker blockUnpacker
}

var _ vfs.File = (*packedFile)(nil)

// Size returns the size of the segment unpacked.
func (p *packedFile) Size() (int64, error) { return segmentHeaderLen + int64(p.end-p.start), nil }

// ReadAt reads of the segment as it was. An error is the disk's.
func (p *packedFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off < segmentHeaderLen {
		n = copy(b, p.head[max(off, 0):])
	}
	for n < len(b) {
		pos := p.start + uint64(off+int64(n)-segmentHeaderLen)
		if pos >= p.end {
			return n, io.EOF
		}
		i := p.blockAt(pos)
		if err := p.load(i); err != nil {
			return n, err
		}
		if p.faults[i] == nil {
			n += copy(b[n:], p.raw[pos-p.blocks[i].start:])
			continue
		}
		for left := min(uint64(len(b)-n), p.until(i)-pos); left > 0; left-- {
			b[n] = noFrame
			n++
		}
	}
	return n, nil
}

// noFrame is what damaged blocks show: no frame starts at 2^64-1, and it is not zero, which is what was never written.
const noFrame = 0xff

// until returns the log offset where block i ends.
func (p *packedFile) until(i int) uint64 {
	if i+1 < len(p.blocks) {
		return p.blocks[i+1].start
	}
	return p.end
}

// blockAt returns the block that holds a log offset of the file.
func (p *packedFile) blockAt(pos uint64) int {
	return sort.Search(len(p.blocks), func(i int) bool { return p.blocks[i].start > pos }) - 1
}

// frameBefore returns the start of a frame at or before a log offset in a segment file: of the first in its block, or
// the segment's, as frames have no index.
func frameBefore(file vfs.File, s *segment, pos uint64) uint64 {
	if p, ok := file.(*packedFile); ok && pos > p.start && pos < p.end {
		return p.blocks[p.blockAt(pos)].start
	}
	return s.start
}

// load makes block i the current one, or finds out that it is damaged.
func (p *packedFile) load(i int) error {
	if i == p.current || p.faults[i] != nil {
		return nil
	}
	p.current = -1
	end := p.index
	if i+1 < len(p.blocks) {
		end = p.blocks[i+1].at
	}
	fault, err := p.read(p.blocks[i], end, p.until(i)-p.blocks[i].start)
	if err != nil {
		return err
	}
	if fault == nil {
		p.current = i
		return nil
	}
	if p.faults == nil {
		p.faults = make(map[int]*frameFault)
	}
	p.faults[i] = fault
	return nil
}

// read reads and unpacks a block that ends at a place of the file and holds want bytes of the log.
func (p *packedFile) read(block packedBlock, end int64, want uint64) (*frameFault, error) {
	n := end - block.at
	if n < packBlockHeaderLen || n > packBlockHeaderLen+maxPackStored || want > maxPackRaw {
		return &frameFault{want: "a packed block", got: fmt.Sprintf("%d bytes for %d of the log", n, want)}, nil
	}
	if int64(cap(p.stored)) < n {
		p.stored = make([]byte, n)
	}
	b, err := readAtMost(p.File, p.stored[:n], block.at)
	if err != nil {
		return nil, err
	}
	h, fault := decodePackBlockHeader(b)
	switch {
	case fault != nil:
		return fault, nil
	case uint64(h.raw) != want || int64(h.stored) != n-packBlockHeaderLen || h.start != block.start:
		return &frameFault{want: fmt.Sprintf("a packed block of %d bytes of the log from %d on, in %d", want, block.start, n),
			got: fmt.Sprintf("%d from %d on, in %d", h.raw, h.start, h.stored)}, nil
	}
	if uint64(cap(p.raw)) < want {
		p.raw = make([]byte, 0, want)
	}
	p.raw, fault = p.unpacker.unpack(p.raw[:0], b)
	return fault, nil
}

// damage returns why there are no frames at a log offset that was read; nil if the block there is whole.
func (p *packedFile) damage(pos uint64) *frameFault {
	if pos < p.start || pos >= p.end {
		return nil
	}
	return p.faults[p.blockAt(pos)]
}

// WriteAt implements vfs.File: a packed segment is never changed.
func (p *packedFile) WriteAt([]byte, int64) (int, error) { return 0, readOnly("write", p.Name()) }

// Sync implements vfs.File.
func (p *packedFile) Sync() error { return readOnly("sync", p.Name()) }

// Truncate implements vfs.File.
func (p *packedFile) Truncate(int64) error { return readOnly("truncate", p.Name()) }

// Preallocate implements vfs.File.
func (p *packedFile) Preallocate(int64) error { return readOnly("preallocate", p.Name()) }

// Map implements vfs.File.
func (p *packedFile) Map(int64) ([]byte, func() error, error) {
	return nil, nil, readOnly("map", p.Name())
}
