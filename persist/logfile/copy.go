package logfile

import (
	"errors"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Copy writes frames, in order, into segments of a directory that has no log yet, or beside its log. NOT safe for
// concurrent use.
type Copy struct {
	history format.History // of the segment that is written, or of the next one
	fsys    vfs.FS
	dir     string
	suffix  string // behind the segments' names
	at      uint64 // log offset of the next frame
	crc     uint32 // of the last frame
	bytes   uint64 // written

	seg  Segment
	file vfs.File // nil: no segment is open
	head format.SegmentHeader
	off  int64
}

// NewCopy returns a copy that makes its first segment in dir/log when a frame comes, or with Finish, for the log
// offset at.
func NewCopy(fsys vfs.FS, dir string, at uint64, h format.History) *Copy {
	return &Copy{history: h, fsys: fsys, dir: dir, at: at}
}

// NewStagedCopy is NewCopy for segments of an installation: they get their names later.
func NewStagedCopy(fsys vfs.FS, dir string, at uint64, h format.History) *Copy {
	c := NewCopy(fsys, dir, at, h)
	c.suffix = format.StagedSuffix
	return c
}

// Abort closes the segment that is being written. What is staged stays.
func (w *Copy) Abort() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// End returns the log offset behind the last frame.
func (w *Copy) End() uint64 { return w.at }

// Bytes returns how many bytes of segment files are finished.
func (w *Copy) Bytes() uint64 { return w.bytes }

// Begin makes the frames from now on belong to a history, in segments of their own. A segment must not bear the name of a later
// history: when that is taken back, the log would seem to be another node's (HasAll).
func (w *Copy) Begin(h format.History) error {
	if h == w.history {
		return nil
	}
	w.history = h
	if w.file == nil {
		return nil
	}
	return w.Finish()
}

// Append appends one frame, header included, that starts at a log offset: at End, but for the first one.
func (w *Copy) Append(start uint64, raw []byte) error {
	if w.file != nil && w.off+int64(len(raw)) > DefaultSegment {
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
	w.at, w.crc = start+uint64(len(raw)), format.RawFrameCRC(raw)
	return nil
}

func (w *Copy) open(start uint64) error {
	w.seg = Segment{start, filepath.Join(format.LogDir(w.dir), format.SegmentName(start)+w.suffix)}
	w.head = format.SegmentHeader{History: w.history, Start: start, Chain: w.crc}
	w.off = format.SegmentHeaderLen
	var err error
	w.file, err = w.fsys.Create(w.seg.Path)
	return err
}

// Finish writes the header and syncs the segment. Of a log without frames it makes an empty segment.
func (w *Copy) Finish() (err error) {
	if w.file == nil {
		if w.bytes > 0 {
			return nil
		}
		if err := w.open(w.at); err != nil {
			return err
		}
	}
	w.head.Size, w.head.Durable = uint32(w.off), w.at
	if _, err = w.file.WriteAt(w.head.AppendTo(nil), 0); err == nil {
		err = w.file.Sync()
	}
	w.bytes += uint64(w.off)
	err = errors.Join(err, w.file.Close())
	w.file = nil
	return err
}
