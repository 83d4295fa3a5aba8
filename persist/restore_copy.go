package persist

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/counterd/counterd/persist/vfs"
)

// logCopy writes frames, in order, into segments of a new directory.
type logCopy struct {
	fsys    vfs.FS
	dir     string
	suffix  string // behind the segments' names
	history History
	at      uint64 // log offset of the next frame
	crc     uint32 // of the last frame
	bytes   uint64 // written

	seg  segment
	file vfs.File // nil: no segment is open
	head segmentHeader
	off  int64
}

// frame appends one frame that starts at an offset: at, but for the first one.
func (w *logCopy) frame(start uint64, raw []byte) error {
	if w.file != nil && w.off+int64(len(raw)) > defaultSegment {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.open(start); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt(raw, w.off); err != nil {
		return err
	}
	w.off += int64(len(raw))
	w.at, w.crc = start+uint64(len(raw)), rawFrameCRC(raw)
	return nil
}

func (w *logCopy) open(start uint64) error {
	w.seg = segment{start, filepath.Join(LogDir(w.dir), SegmentName(start)+w.suffix)}
	w.head = segmentHeader{history: w.history, start: start, chain: w.crc}
	w.off = segmentHeaderLen
	var err error
	w.file, err = w.fsys.Create(w.seg.path)
	return err
}

// finish writes the header and syncs the segment. Of a log without frames it makes an empty segment.
func (w *logCopy) finish() (err error) {
	if w.file == nil {
		if w.bytes > 0 {
			return nil
		}
		if err := w.open(w.at); err != nil {
			return err
		}
	}
	w.head.size, w.head.durable = uint32(w.off), w.at
	if _, err = w.file.WriteAt(w.head.appendTo(nil), 0); err == nil {
		err = w.file.Sync()
	}
	w.bytes += uint64(w.off)
	err = errors.Join(err, w.file.Close())
	w.file = nil
	return err
}

// copyBlocks copies the files of a manifest and verifies the copies. Damaged cold files are copied as they are: a server answers errors for their mids, and
// serves all others.
func (r *restore) copyBlocks(m *Manifest) error {
	copied := map[string]bool{}
	var done, total uint64
	_ = m.Blocks(func(_ *CounterFiles, b *BlockFile) error { // fn returns nil
		total += b.Bytes
		return nil
	})
	return m.Blocks(func(c *CounterFiles, b *BlockFile) error {
		if name := string(b.Tier) + b.Name; copied[name] {
			return nil
		} else {
			copied[name] = true
		}
		if err := r.copyBlock(b); err != nil {
			if isNotExist(err) && b.Tier == TierCold {
				r.sayf("left out: %v", unusableCold(r.dir, c, b, err))
				return nil
			}
			if isNotExist(err) {
				err = &CorruptError{File: b.Path(r.dir), Want: "a file as " + ManifestName(m.Generation) + " names it", Got: "none", Err: err}
			}
			return err
		}
		if err := CheckBlock(r.to, r.out, c, b, CheckOptions{Cold: r.opts.Cold}); err != nil {
			var fault *ColdFault
			if !errors.As(err, &fault) {
				return fmt.Errorf("copy of %s: %w", b.Path(r.dir), err)
			}
			r.sayf("copied as it is: %v", err)
		}
		r.result.Files++
		r.result.Bytes += b.Bytes
		if done += b.Bytes; r.opts.Progress != nil {
			r.opts.Progress(done, total)
		}
		return nil
	})
}

func (r *restore) copyBlock(b *BlockFile) (err error) {
	from, err := r.fsys.Open(b.Path(r.dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := r.to.Create(b.Path(r.out))
	if err != nil {
		return err
	}
	return errors.Join(copyContent(from, to), to.Close())
}

// copyContent copies a file's bytes, durably.
func copyContent(from, to vfs.File) error {
	buf := make([]byte, resyncWindow)
	for off := int64(0); ; off += int64(len(buf)) {
		b, err := readAtMost(from, buf, off)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return to.Sync()
		}
		if _, err := to.WriteAt(b, off); err != nil {
			return err
		}
	}
}
