package persist

import (
	"errors"
	"path/filepath"

	"github.com/counterd/counterd/persist/vfs"
)

// LogCopy writes frames, in order, into segments of a directory that has no log yet, or beside its log. NOT safe for
// concurrent use.
type LogCopy struct {
	History History // of the segments that are begun from now on

	fsys   vfs.FS
	dir    string
	suffix string // behind the segments' names
	at     uint64 // log offset of the next frame
	crc    uint32 // of the last frame
	bytes  uint64 // written

	seg  segment
	file vfs.File // nil: no segment is open
	head segmentHeader
	off  int64
}

// NewLogCopy returns a copy that makes its first segment in dir/log when a frame comes, or with Finish, for the log
// offset at.
func NewLogCopy(fsys vfs.FS, dir string, at uint64, h History) *LogCopy {
	return &LogCopy{History: h, fsys: fsys, dir: dir, at: at}
}

// End returns the log offset behind the last frame.
func (w *LogCopy) End() uint64 { return w.at }

// Bytes returns how many bytes of segment files are finished.
func (w *LogCopy) Bytes() uint64 { return w.bytes }

// Append appends one frame, header included, that starts at a log offset: at End, but for the first one.
func (w *LogCopy) Append(start uint64, raw []byte) error {
	if w.file != nil && w.off+int64(len(raw)) > defaultSegment {
		if err := w.Finish(); err != nil {
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

func (w *LogCopy) open(start uint64) error {
	w.seg = segment{start, filepath.Join(LogDir(w.dir), SegmentName(start)+w.suffix)}
	w.head = segmentHeader{history: w.History, start: start, chain: w.crc}
	w.off = segmentHeaderLen
	var err error
	w.file, err = w.fsys.Create(w.seg.path)
	return err
}

// Finish writes the header and syncs the segment. Of a log without frames it makes an empty segment.
func (w *LogCopy) Finish() (err error) {
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
