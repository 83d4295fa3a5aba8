package logfile

import (
	"errors"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Sizes of segment files in bytes.
const (
	// DefaultSegment is the size that segments have unless the owner of the log wants another.
	DefaultSegment = 64 << 20

	// MinSegment holds a header and a frame or two; for tests.
	MinSegment = 512

	// MaxSegment fits the header's field, with room for a segment of bytes written again after disk trouble.
	MaxSegment = 1 << 31
)

// Segment is one segment file as the log's list knows it.
type Segment struct {
	Start uint64
	Path  string
}

// Offset returns where the log offset pos is in the file.
func (s *Segment) Offset(pos uint64) int64 { return format.SegmentHeaderLen + int64(pos-s.Start) }

// Below returns how many segments of a list start below a log offset.
func Below(segs []Segment, offset uint64) int {
	n := 0
	for n < len(segs) && segs[n].Start < offset {
		n++
	}
	return n
}

// ReadSegmentHeader reads the header of an open segment file.
func ReadSegmentHeader(f vfs.File, s *Segment) (h format.SegmentHeader, fault *format.Fault, err error) {
	b, err := vfs.ReadAtMost(f, make([]byte, format.SegmentHeaderLen), 0)
	if err != nil {
		return h, nil, err
	}
	return format.DecodeSegmentHeader(b, s.Path, s.Start)
}

// SegmentHeaderOf opens a segment file, and reads its header. fault is damage of the header; err is of the file.
func SegmentHeaderOf(fsys vfs.FS, s *Segment) (h format.SegmentHeader, fault *format.Fault, err error) {
	file, err := OpenSegmentFile(fsys, s)
	if err != nil {
		return h, nil, err
	}
	h, fault, err = ReadSegmentHeader(file, s)
	return h, fault, errors.Join(err, file.Close())
}

// CutSegment cuts the bytes of a segment file behind a log offset, durably: frames there would count again where a later cut of the log begins at this
// offset and the next segment is lost. A packed segment has nothing there and stays as it is.
func CutSegment(fsys vfs.FS, seg *Segment, at uint64) error {
	file, err := fsys.Open(seg.Path)
	if err != nil {
		return err
	}
	head, err := vfs.ReadAtMost(file, make([]byte, format.SegmentHeaderLen), 0)
	if err = errors.Join(err, file.Close()); err != nil || format.IsPackedHeader(head) {
		return err
	}
	return vfs.TruncateTo(fsys, seg.Path, seg.Offset(at))
}
