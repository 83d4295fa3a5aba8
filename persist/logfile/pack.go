package logfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// packSyncBytes are written between syncs, so that none takes long: the log's own wait behind it.
const packSyncBytes = 2 << 20

// PackOptions say how a segment is packed.
type PackOptions struct {
	Chunk int          // bytes of the log in a chunk
	Limit int64        // a packed file that would be larger gives ErrNotSmaller
	Pace  func() error // called behind each chunk; its error ends the packing; may be nil
}

// PackSegment writes the packed form of a segment, which ends at a log offset, to a new file and syncs it. It returns the
// file's size.
func PackSegment(to vfs.File, dir string, seg *Segment, from vfs.File, end uint64, opts PackOptions) (size int64, err error) {
	w := packWriter{file: to, PackOptions: opts}
	err = w.segment(dir, seg, from, end)
	return w.off, err
}

// packWriter writes a packed segment to a new file. NOT safe for concurrent use.
type packWriter struct {
	PackOptions
	file vfs.File

	packer *format.ChunkPacker
	chunks []format.PackedChunk
	raw    []byte // frames of the chunk that is being filled
	start  uint64 // log offset of its first
	buf    []byte
	off    int64
	synced int64
}

// Segment packs the frames of a segment file, which ends at a log offset.
func (w *packWriter) segment(dir string, seg *Segment, from vfs.File, end uint64) error {
	h, fault, err := ReadSegmentHeader(from, seg)
	if err != nil {
		return err
	}
	if w.packer, err = format.NewChunkPacker(); err != nil {
		return err
	}
	if fault == nil {
		if err := w.write(format.AppendPackedHeader(nil, h, end, false)); err != nil {
			return err
		}
		var s Scanner
		var f format.Frame
		s.Reset(from, *seg, seg.Start, end)
		for w.start = seg.Start; s.Pos < end; {
			if fault, err = s.Next(&f); err == io.EOF || fault != nil {
				break
			}
			if err == nil {
				err = w.frame(&f)
			}
			if err != nil {
				return err
			}
		}
		if fault == nil && s.Pos != end {
			fault = &format.Fault{Want: fmt.Sprintf("frames up to %d, where the next segment starts", end), Got: "none"}
		}
		if fault != nil {
			return &format.CorruptError{Dir: dir, File: seg.Path, Offset: seg.Offset(s.Pos), LogOffset: s.Pos, Want: fault.Want, Got: fault.Got}
		}
	}
	if fault != nil {
		return &format.CorruptError{Dir: dir, File: seg.Path, LogOffset: seg.Start, Want: fault.Want, Got: fault.Got}
	}
	return w.finish()
}

// Frame takes the next frame.
func (w *packWriter) frame(f *format.Frame) error {
	w.raw = append(w.raw, f.Raw...)
	if len(w.raw) < w.Chunk {
		return nil
	}
	return w.flush()
}

// flush writes the chunk that is being filled.
func (w *packWriter) flush() (err error) {
	if len(w.raw) == 0 {
		return nil
	}
	if w.buf, err = w.packer.AppendChunk(w.buf[:0], w.raw, w.start); err != nil {
		return err
	}
	w.chunks = append(w.chunks, format.PackedChunk{Start: w.start, At: w.off})
	w.start += uint64(len(w.raw))
	w.raw = w.raw[:0]
	if err := w.write(w.buf); err != nil {
		return err
	}
	if w.off-w.synced >= packSyncBytes {
		w.synced = w.off
		if err := w.file.Sync(); err != nil {
			return err
		}
	}
	if w.Pace != nil {
		return w.Pace()
	}
	return nil
}

// Write appends to the file.
func (w *packWriter) write(b []byte) error {
	if w.off+int64(len(b)) > w.Limit {
		return ErrNotSmaller
	}
	_, err := w.file.WriteAt(b, w.off)
	w.off += int64(len(b))
	return err
}

// finish writes what is left, index and footer, and syncs.
func (w *packWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.write(format.AppendPackedIndex(nil, w.chunks, w.off)); err != nil {
		return err
	}
	return w.file.Sync()
}

// unpackTo puts a segment that is not packed, and ends at a log offset inside of it, in the place of one that is, in
// one step, durably.
func unpackTo(fsys vfs.FS, seg *Segment, packed *PackedFile, at uint64) (err error) {
	temp := seg.Path + format.TempSuffix
	if err := vfs.RemoveIfThere(fsys, temp); err != nil {
		return err
	}
	to, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	err = copySegment(to, seg, packed, at)
	if err = errors.Join(err, to.Close()); err == nil {
		err = fsys.Rename(temp, seg.Path)
	}
	if err != nil {
		return errors.Join(err, vfs.RemoveIfThere(fsys, temp))
	}
	return fsys.SyncDir(filepath.Dir(seg.Path))
}

// copySegment writes the segment that a packed one was, up to a log offset.
func copySegment(to vfs.File, seg *Segment, packed *PackedFile, at uint64) error {
	buf := make([]byte, format.ChunkLen)
	for off := int64(0); off < seg.Offset(at); {
		b, err := vfs.ReadAtMost(packed, buf[:min(int64(len(buf)), seg.Offset(at)-off)], off)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			break
		}
		if _, err := to.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	h, fault, err := ReadSegmentHeader(packed, seg)
	if err == nil && fault == nil {
		h.Durable = min(h.Durable, at)
		_, err = to.WriteAt(h.AppendTo(nil), 0)
	}
	return errors.Join(err, to.Sync())
}

var ErrNotSmaller = errors.New("packing does not make the segment smaller")
