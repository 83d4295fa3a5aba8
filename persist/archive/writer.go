package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// An archive is one file with a snapshot and the log behind it: parts, each of them a file of a data directory.
//
//	+--------+--------+--------+- ... -+--------+
//	| header | part 0 | part 1 |  ...  |  last  |
//	+--------+--------+--------+- ... -+--------+
//
//	header
//	 0        8         10      12       16               24       28
//	+--------+---------+-------+--------+----------------+--------+
//	| magic  | version | zeros | parts  | size           | crc32c |
//	+--------+---------+-------+--------+----------------+--------+
//	          u16       u16     u32      u64              u32
//
//	part
//	 0                8        10      12       16
//	+----------------+--------+-------+--------+------+---------+--------+
//	| length         | n      | zeros | crc32c | name | content | crc32c |
//	+----------------+--------+-------+--------+------+---------+--------+
//	 u64              u16      u16     u32      n      length    u32
//
// Little-endian. size is the archive's, in bytes, so that one cut short is told from a whole one. The header's crc32c
// covers the 24 bytes before it; a part's first one its 12 bytes and the name, its second one the content.
//
// In version 2, which is compressed, the header's parts and size are 0, and the zeros of a part say what it is: 0, as it
// is; 1, an image whose content is its length (u64) and one zstd frame of it; 2, the end, without a name, a content and
// its crc32c, whose length is that of all before it, in bytes. The log is in packed segments (format/packed.go). Cold files
// stay as they are: they are dense. Of what may stand behind the end 40 bytes are passed over: redis-cli leaves the mark
// there that ended its download, where it cannot cut it off.
//
// The name is a path below the data directory, with slashes: HISTORY; MANIFEST-<n>, of the one snapshot, unless the
// log goes back to offset 0; the block files that it names, as they are; log/<start>.aof, segments made for the archive
// without a gap from the offset to replay from to the log's end. No name comes twice. So an archive is read as a data
// directory that never changes: see Archive.
const (
	archiveMagic      = "CTRDARC\n"
	archiveVersion    = 1
	archiveCompressed = 2 // the version that is compressed
	archiveHeaderLen  = 28
	archivePartLen    = 16
	archiveSumLen     = 4
	maxArchiveName    = 512
	archiveCopyBuffer = 256 << 10
	archiveEndMark    = 40

	archivePlain = 0 // kinds of parts
	archiveZstd  = 1
	archiveEnd   = 2
)

// appendArchiveHeader appends the header of an archive.
func appendArchiveHeader(dst []byte, version uint16, parts int, size uint64) []byte {
	n := len(dst)
	dst = append(dst, archiveMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(parts))
	dst = binary.LittleEndian.AppendUint64(dst, size)
	return binary.LittleEndian.AppendUint32(dst, format.Checksum(dst[n:]))
}

// appendArchivePart appends what stands before a part's content.
func appendArchivePart(dst []byte, kind uint16, name string, length uint64) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, length)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name)))
	dst = binary.LittleEndian.AppendUint16(dst, kind)
	sum := crc32.Update(format.Checksum(dst[n:]), format.Castagnoli, []byte(name))
	return append(binary.LittleEndian.AppendUint32(dst, sum), name...)
}

// Writer writes the state of an open log's directory as an archive. Its size is known before the first byte is
// written, unless it is compressed, and it takes memory for one frame and one buffer, or else for an image or 1 MiB of
// log, twice. The files and the log must stay while the Writer works. NOT safe for concurrent use; must be closed.
type Writer struct {
	fsys    vfs.FS
	dir     string
	history format.History
	parts   []outPart
	size    uint64
	end     uint64

	reader *persist.Reader
	out    io.Writer
	done   int64
	crc    uint32 // of the part so far
	chain  uint32 // checksum of the last frame
	buf    []byte
}

// outPart is a part to be written: one of text, a file and a stretch of the log.
type outPart struct {
	name   string
	length uint64
	text   []byte
	file   string // path
	cold   bool   // of a cold file: what cannot be read of it is zeros
	log    bool
	start  uint64 // of a stretch of the log; it ends at end
	end    uint64
}

// NewWriter prepares an archive of a snapshot and the log from there to what is written now. m is nil where
// there is no snapshot and the log goes back to offset 0. The log must hold m.Replay: otherwise ErrGone.
func NewWriter(fsys vfs.FS, dir string, log *persist.Log, m *format.Manifest, lineage format.Lineage) (*Writer, error) {
	w := &Writer{fsys: fsys, dir: dir, history: lineage.Current()}
	from := uint64(0)
	// What was begun and not finished is the directory's own.
	plain := format.Lineage{Replica: lineage.Replica, Terms: lineage.Terms, Cursors: lineage.Cursors, NeedsSnapshot: lineage.NeedsSnapshot}
	w.add(outPart{name: format.HistoryName, text: plain.AppendText(nil)})
	if m != nil {
		from = m.Replay
		w.add(outPart{name: format.ManifestName(m.Generation), text: m.Text()})
		seen := map[string]bool{}
		err := m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			path := b.Path(dir)
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if !seen[name] {
				seen[name] = true
				w.add(outPart{name: filepath.ToSlash(name), length: b.Bytes, file: path, cold: b.Tier == format.TierCold})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	w.end = log.Written()
	if m != nil && w.end < m.Offset {
		return nil, fmt.Errorf("archive: the log ends at %d, the snapshot is of %d: %w", w.end, m.Offset, format.ErrGap)
	}
	var err error
	if w.reader, err = log.NewReader(from); err != nil {
		return nil, err
	}
	// In pieces as the log has them on disk now. They begin with a frame whatever becomes of the files.
	at := w.reader.Pos()
	for _, s := range log.Segments().List() {
		if at < s.Start && s.Start < w.end {
			w.addLog(at, s.Start)
			at = s.Start
		}
	}
	w.addLog(at, w.end)
	w.size += archiveHeaderLen
	if w.size > math.MaxInt64 || len(w.parts) > math.MaxUint32 {
		return nil, errors.Join(fmt.Errorf("archive of %d bytes in %d files: %w", w.size, len(w.parts), format.ErrTooLarge), w.Close())
	}
	return w, nil
}

func (w *Writer) add(p outPart) {
	if p.text != nil {
		p.length = uint64(len(p.text))
	}
	w.parts = append(w.parts, p)
	w.size += archivePartLen + uint64(len(p.name)) + p.length + archiveSumLen
}

func (w *Writer) addLog(start, end uint64) {
	w.add(outPart{name: format.LogDirName + "/" + format.SegmentName(start), length: format.SegmentHeaderLen + end - start, log: true, start: start, end: end})
}

// Size returns how many bytes WriteTo writes, or WriteCompressed at most but for a few in a thousand.
func (w *Writer) Size() int64 { return int64(w.size) }

// End returns the log offset that the archive's state is of.
func (w *Writer) End() uint64 { return w.end }

// WriteTo writes the archive, once. A block file that is not as the snapshot says, or a damaged log, gives a
// *CorruptError; what was written until then is no archive.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	w.out, w.done = out, 0
	w.buf = make([]byte, archiveCopyBuffer)
	if err := w.write(appendArchiveHeader(nil, archiveVersion, len(w.parts), w.size)); err != nil {
		return w.done, err
	}
	for i := range w.parts {
		if err := w.part(&w.parts[i]); err != nil {
			return w.done, err
		}
	}
	return w.done, nil
}

// part writes a part as it is.
func (w *Writer) part(p *outPart) error {
	if err := w.write(appendArchivePart(w.buf[:0], archivePlain, p.name, p.length)); err != nil {
		return err
	}
	began := w.done
	w.crc = 0
	if err := w.content(p); err != nil {
		return err
	}
	if n := uint64(w.done - began); n != p.length {
		return &format.CorruptError{Dir: w.dir, File: filepath.Join(w.dir, p.name), Want: fmt.Sprintf("%d bytes", p.length), Got: fmt.Sprint(n)}
	}
	return w.write(binary.LittleEndian.AppendUint32(w.buf[:0], w.crc))
}

// Write writes bytes and counts them.
func (w *Writer) write(b []byte) error {
	w.crc = crc32.Update(w.crc, format.Castagnoli, b)
	n, err := w.out.Write(b)
	w.done += int64(n)
	return err
}

func (w *Writer) content(p *outPart) error {
	switch {
	case p.log:
		return w.segment(p)
	case p.file != "":
		return w.copyFile(p)
	}
	return w.write(p.text)
}

// copyFile copies a block file: not a byte more than was announced.
func (w *Writer) copyFile(p *outPart) (err error) {
	file, err := w.fsys.Open(p.file)
	if err != nil && !p.cold {
		return err
	}
	if err != nil {
		return w.zeros(p.length)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for off := uint64(0); off < p.length; {
		b, err := vfs.ReadAtMost(file, w.buf[:min(uint64(len(w.buf)), p.length-off)], int64(off))
		if p.cold && (err != nil || len(b) == 0) {
			// Again, in the units in which a disk fails.
			unit := min(p.length-off, holeSize-off%holeSize)
			if b, err = vfs.ReadAtMost(file, w.buf[:unit], int64(off)); err != nil || len(b) == 0 {
				if err := w.zeros(unit); err != nil {
					return err
				}
				off += unit
				continue
			}
		}
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return nil // too short: WriteTo tells
		}
		if err := w.write(b); err != nil {
			return err
		}
		off += uint64(len(b))
	}
	return nil
}

// holeSize is what is left out where a disk cannot read.
const holeSize = 4096

// zeros writes n of them.
func (w *Writer) zeros(n uint64) error {
	clear(w.buf)
	for n > 0 {
		b := w.buf[:min(uint64(len(w.buf)), n)]
		if err := w.write(b); err != nil {
			return err
		}
		n -= uint64(len(b))
	}
	return nil
}

// Segment writes a stretch of the log as a segment file.
func (w *Writer) segment(p *outPart) error {
	if p.length > math.MaxUint32 {
		return fmt.Errorf("log segment of %d bytes: %w", p.length, format.ErrTooLarge)
	}
	h := format.SegmentHeader{History: w.history, Start: p.start, Durable: p.end, Chain: w.chain, Size: uint32(p.length)}
	if err := w.write(h.AppendTo(w.buf[:0])); err != nil {
		return err
	}
	for w.reader.Pos() < p.end {
		f, err := w.reader.TryNext()
		if err != nil {
			return err
		}
		if f == nil {
			return nil // WriteTo tells
		}
		w.chain = f.CRC
		if err := w.write(f.Raw); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the log's reader.
func (w *Writer) Close() error {
	if w.reader == nil {
		return nil
	}
	return w.reader.Close()
}
