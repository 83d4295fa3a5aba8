package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxArchivePacked bounds the image that is compressed, which is read into memory as a whole: a block of three counters
	// has 64 Ki items and 0.4 MiB.
	maxArchivePacked = 64 << 20
	// archiveLogPart is how many bytes of log are in a packed segment of an archive.
	archiveLogPart = 1 << 20
)

// WriteCompressed is WriteTo for an archive that is compressed: images to 0.6 of their size at 7 ms of a processor a MB,
// the log as packed segments are.
func (w *Writer) WriteCompressed(out io.Writer) (int64, error) {
	w.out, w.done = out, 0
	w.buf = make([]byte, archiveCopyBuffer)
	c := archivePacker{Writer: w}
	err := c.run()
	return w.done, err
}

// archivePacker writes a compressed archive.
type archivePacker struct {
	*Writer
	images *zstd.Encoder
	log    *format.ChunkPacker
	raw    []byte
	stored []byte
}

func (w *archivePacker) run() (err error) {
	if w.images, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)); err != nil {
		return err
	}
	if w.log, err = format.NewChunkPacker(); err != nil {
		return err
	}
	if err := w.write(appendArchiveHeader(nil, archiveCompressed, 0, 0)); err != nil {
		return err
	}
	for i := range w.parts {
		switch p := &w.parts[i]; {
		case p.log:
			err = w.segments(p)
		case p.file != "" && !p.cold && p.length <= maxArchivePacked:
			err = w.image(p)
		default:
			err = w.part(p)
		}
		if err != nil {
			return err
		}
	}
	return w.write(appendArchivePart(w.buf[:0], archiveEnd, "", uint64(w.done)))
}

// image writes an image compressed.
func (w *archivePacker) image(p *outPart) (err error) {
	file, err := w.fsys.Open(p.file)
	if err != nil {
		return err
	}
	if uint64(cap(w.raw)) < p.length {
		w.raw = make([]byte, p.length)
	}
	raw, err := vfs.ReadAtMost(file, w.raw[:p.length], 0)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if n := uint64(len(raw)); n != p.length {
		return &format.CorruptError{Dir: w.dir, File: filepath.Join(w.dir, p.name), Want: fmt.Sprintf("%d bytes", p.length), Got: fmt.Sprint(n)}
	}
	w.stored = binary.LittleEndian.AppendUint64(w.stored[:0], p.length)
	w.stored = w.images.EncodeAll(raw, w.stored)
	return w.whole(archiveZstd, p.name, w.stored)
}

// whole writes a part whose content is in memory.
func (w *archivePacker) whole(kind uint16, name string, content []byte) error {
	if err := w.write(appendArchivePart(w.buf[:0], kind, name, uint64(len(content)))); err != nil {
		return err
	}
	w.crc = 0
	if err := w.write(content); err != nil {
		return err
	}
	return w.write(binary.LittleEndian.AppendUint32(w.buf[:0], w.crc))
}

// segments writes a stretch of the log as packed segments.
func (w *archivePacker) segments(p *outPart) error {
	for w.reader.Pos() < p.end {
		start, chain := w.reader.Pos(), w.chain
		var blocks []format.PackedChunk
		w.stored = append(w.stored[:0], make([]byte, format.SegmentHeaderLen)...)
		w.raw = w.raw[:0]
		at := start
		flush := func() (err error) {
			if len(w.raw) == 0 {
				return nil
			}
			blocks = append(blocks, format.PackedChunk{Start: at, At: int64(len(w.stored))})
			w.stored, err = w.log.AppendChunk(w.stored, w.raw, at)
			at += uint64(len(w.raw))
			w.raw = w.raw[:0]
			return err
		}
		for w.reader.Pos() < p.end && w.reader.Pos()-start < archiveLogPart {
			f, err := w.reader.TryNext()
			if err != nil {
				return err
			}
			if f == nil {
				return &format.CorruptError{Dir: w.dir, File: filepath.Join(w.dir, p.name), LogOffset: w.reader.Pos(), Want: fmt.Sprintf("log up to %d", p.end), Got: "its end"}
			}
			w.raw = append(w.raw, f.Raw...)
			w.chain = f.CRC
			if len(w.raw) >= format.ChunkLen {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if err := flush(); err != nil {
			return err
		}
		w.stored = format.AppendPackedIndex(w.stored, blocks, int64(len(w.stored)))
		format.AppendPackedHeader(w.stored[:0], format.SegmentHeader{History: w.history, Start: start, Chain: chain}, at, true)
		if err := w.whole(archivePlain, format.LogDirName+"/"+format.SegmentName(start), w.stored); err != nil {
			return err
		}
	}
	if p.start == p.end { // an archive has a log, if an empty one
		return w.part(p)
	}
	return nil
}

// archiveUnpackers are decoders of zstd for images.
var archiveUnpackers = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxArchivePacked), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options above are valid
	}
	return d
}}

// Unpack reads the content of a part that is compressed.
func (a *Archive) unpack(name string, p archivePart) ([]byte, error) {
	stored := make([]byte, p.length-8) // no more than the archive has
	if err := a.read(stored, p.off+8, "content"); err != nil {
		return nil, err
	}
	d := archiveUnpackers.Get().(*zstd.Decoder)
	raw, err := d.DecodeAll(stored, make([]byte, 0, p.raw+format.UnpackSlack)) // bounded when the archive was opened
	archiveUnpackers.Put(d)
	if err == nil && int64(len(raw)) != p.raw {
		err = fmt.Errorf("%d bytes", len(raw))
	}
	if err != nil {
		return nil, a.corrupt(p.off, fmt.Sprintf("%d bytes of %s, compressed", p.raw, strings.TrimPrefix(name, a.path)), err.Error())
	}
	return raw, nil
}
