package logfile

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// PackedFile shows a packed segment as the segment file that it was: header and frames, without padding. Readers of the log
// need not know that it is packed. A damaged chunk shows as bytes that are no frame, and damage tells why; the rest of the
// file can be read. PackedFile keeps the chunk that was read last. NOT safe for concurrent use.
//
// Invariant: chunks are in order, the first at start; each ends where the next begins, the last at end and at index.
type PackedFile struct {
	vfs.File   // as it is on disk
	head       [format.SegmentHeaderLen]byte
	start, end uint64 // log offsets
	Chunks     []format.PackedChunk
	index      int64         // where the chunks end
	indexFault *format.Fault // the chunks had to be found by their headers

	current  int                   // chunk in raw, -1: none
	raw      []byte                // its frames
	faults   map[int]*format.Fault // of damaged chunks that were read
	stored   []byte
	unpacker format.ChunkUnpacker
}

var _ vfs.File = (*PackedFile)(nil)

// Size returns the size of the segment unpacked.
func (p *PackedFile) Size() (int64, error) {
	return format.SegmentHeaderLen + int64(p.end-p.start), nil
}

// ReadAt reads of the segment as it was. An error is the disk's.
func (p *PackedFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off < format.SegmentHeaderLen {
		n = copy(b, p.head[max(off, 0):])
	}
	for n < len(b) {
		pos := p.start + uint64(off+int64(n)-format.SegmentHeaderLen)
		if pos >= p.end {
			return n, io.EOF
		}
		i := p.chunkAt(pos)
		if err := p.load(i); err != nil {
			return n, err
		}
		if p.faults[i] == nil {
			n += copy(b[n:], p.raw[pos-p.Chunks[i].Start:])
			continue
		}
		for left := min(uint64(len(b)-n), p.until(i)-pos); left > 0; left-- {
			b[n] = noFrame
			n++
		}
	}
	return n, nil
}

// ErrIndex: the index of a packed segment is damaged, and its frames can still be read.
var ErrIndex = errors.New("the frames can still be read")

// IndexDamage returns a *CorruptError that matches ErrIndex if the index of a packed segment is damaged; nil for another file.
func IndexDamage(file vfs.File) error {
	p, ok := file.(*PackedFile)
	if !ok || p.indexFault == nil {
		return nil
	}
	return &format.CorruptError{File: p.Name(), Offset: p.index, LogOffset: p.start, Want: p.indexFault.Want, Got: p.indexFault.Got, Err: ErrIndex}
}

// noFrame is what damaged chunks show: no frame starts at 2^64-1, and it is not zero, which is what was never written.
const noFrame = 0xff

// until returns the log offset where chunk i ends.
func (p *PackedFile) until(i int) uint64 {
	if i+1 < len(p.Chunks) {
		return p.Chunks[i+1].Start
	}
	return p.end
}

// chunkAt returns the chunk that holds a log offset of the file.
func (p *PackedFile) chunkAt(pos uint64) int {
	return sort.Search(len(p.Chunks), func(i int) bool { return p.Chunks[i].Start > pos }) - 1
}

// FrameBefore returns the start of a frame at or before a log offset in a segment file: of the first in its chunk, or
// the segment's, as frames have no index.
func FrameBefore(file vfs.File, s *Segment, pos uint64) uint64 {
	if p, ok := file.(*PackedFile); ok && pos > p.start && pos < p.end {
		return p.Chunks[p.chunkAt(pos)].Start
	}
	return s.Start
}

// load makes chunk i the current one, or finds out that it is damaged.
func (p *PackedFile) load(i int) error {
	if i == p.current || p.faults[i] != nil {
		return nil
	}
	p.current = -1
	end := p.index
	if i+1 < len(p.Chunks) {
		end = p.Chunks[i+1].At
	}
	fault, err := p.read(p.Chunks[i], end, p.until(i)-p.Chunks[i].Start)
	if err != nil {
		return err
	}
	if fault == nil {
		p.current = i
		return nil
	}
	if p.faults == nil {
		p.faults = make(map[int]*format.Fault)
	}
	p.faults[i] = fault
	return nil
}

// read reads and unpacks a chunk that ends at a place of the file and holds want bytes of the log.
func (p *PackedFile) read(chunk format.PackedChunk, end int64, want uint64) (*format.Fault, error) {
	n := end - chunk.At
	if n < format.ChunkHeaderLen || n > format.ChunkHeaderLen+format.MaxPackStored || want > format.MaxPackRaw {
		return &format.Fault{Want: "a packed chunk", Got: fmt.Sprintf("%d bytes for %d of the log", n, want)}, nil
	}
	if int64(cap(p.stored)) < n {
		p.stored = make([]byte, n)
	}
	b, err := vfs.ReadAtMost(p.File, p.stored[:n], chunk.At)
	if err != nil {
		return nil, err
	}
	h, fault := format.DecodeChunkHeader(b)
	switch {
	case fault != nil:
		return fault, nil
	case uint64(h.Raw) != want || int64(h.Stored) != n-format.ChunkHeaderLen || h.Start != chunk.Start:
		return &format.Fault{Want: fmt.Sprintf("a packed chunk of %d bytes of the log from %d on, in %d", want, chunk.Start, n),
			Got: fmt.Sprintf("%d from %d on, in %d", h.Raw, h.Start, h.Stored)}, nil
	}
	if uint64(cap(p.raw)) < want {
		p.raw = make([]byte, 0, want)
	}
	p.raw, fault = p.unpacker.Unpack(p.raw[:0], b)
	return fault, nil
}

// damage returns why there are no frames at a log offset that was read; nil if the chunk there is whole.
func (p *PackedFile) damage(pos uint64) *format.Fault {
	if pos < p.start || pos >= p.end {
		return nil
	}
	return p.faults[p.chunkAt(pos)]
}

// WriteAt implements vfs.File: a packed segment is never changed.
func (p *PackedFile) WriteAt([]byte, int64) (int, error) { return 0, vfs.ReadOnly("write", p.Name()) }

// Sync implements vfs.File.
func (p *PackedFile) Sync() error { return vfs.ReadOnly("sync", p.Name()) }

// Truncate implements vfs.File.
func (p *PackedFile) Truncate(int64) error { return vfs.ReadOnly("truncate", p.Name()) }

// Preallocate implements vfs.File.
func (p *PackedFile) Preallocate(int64) error { return vfs.ReadOnly("preallocate", p.Name()) }

// Map implements vfs.File.
func (p *PackedFile) Map(int64) ([]byte, func() error, error) {
	return nil, nil, vfs.ReadOnly("map", p.Name())
}
