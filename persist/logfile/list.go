package logfile

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	Path       string
	Start, End uint64 // log offsets; of the last one End is how far it is written, or 0 where that is not known
	Bytes      int64  // of the file, without what is preallocated; 0 where that is not known
	Packed     bool   // it is compressed; false where that is not known
}

func (s SegmentInfo) Segment() *Segment { return &Segment{s.Start, s.Path} }

// Segments returns the segment files of a data directory, oldest first. A missing directory gives none.
func Segments(fsys vfs.FS, dir string) ([]SegmentInfo, error) {
	segs, err := ListSegments(fsys, dir)
	infos := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		infos[i] = SegmentInfo{Path: s.Path, Start: s.Start}
		if i+1 < len(segs) {
			infos[i].End = segs[i+1].Start
		}
	}
	return infos, err
}

// ListSegments returns the segments in dir/log by start offset. A missing directory gives none.
func ListSegments(fsys vfs.FS, dir string) ([]Segment, error) {
	return SegmentsIn(fsys, format.LogDir(dir))
}

// SegmentsIn is ListSegments for a folder with another name than that of a log.
func SegmentsIn(fsys vfs.FS, folder string) ([]Segment, error) {
	names, err := vfs.ListDir(fsys, folder)
	if err != nil {
		return nil, err
	}
	var segs []Segment
	for _, name := range names { // sorted, and the names have one length
		if start, ok := format.ParseSegmentName(name); ok {
			segs = append(segs, Segment{start, filepath.Join(folder, name)})
		}
	}
	return segs, nil
}

// NewSegment makes the segment file of h.Start, durably, in the place of one that is there: of a header and frames,
// which stand one behind the other. The log must not be open.
func NewSegment(fsys vfs.FS, dir string, h Header, frames [][]byte) error {
	m := Maker{FS: fsys, Dir: dir, Least: MinSegment}
	s, err := m.Rewrite(format.SegmentHeader{History: h.History, Start: h.Start, Durable: h.Durable, Chain: h.Chain}, frames, nil)
	if err != nil {
		return err
	}
	return s.File.Close()
}

// EndSegment makes a log offset inside a segment file its end. The log must not be open.
func EndSegment(fsys vfs.FS, seg SegmentInfo, at uint64) error { return EndAt(fsys, seg.Segment(), at) }

// EndAt makes an offset inside a segment its end, durably: frames behind it would count again where the next segment is lost. The header of a segment
// that was begun by a restart claims that bytes behind its start are durable (takeOver). It must not claim bytes that are cut, or the log would count
// as damaged.
func EndAt(fsys vfs.FS, seg *Segment, at uint64) (err error) {
	if whole, err := OpenSegmentFile(fsys, seg); err != nil {
		return err
	} else if packed, ok := whole.(*PackedFile); ok {
		if at < packed.end {
			err = unpackTo(fsys, seg, packed, at)
		}
		return errors.Join(err, packed.Close())
	} else if err := whole.Close(); err != nil {
		return err
	}
	if err := claimTo(fsys, seg, at); err != nil {
		return err
	}
	return vfs.TruncateTo(fsys, seg.Path, seg.Offset(at))
}

// claimTo has the header of a segment claim no bytes behind an offset, durably.
func claimTo(fsys vfs.FS, seg *Segment, at uint64) (err error) {
	file, err := fsys.OpenRW(seg.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, fault, err := ReadSegmentHeader(file, seg)
	if err != nil || fault != nil || h.Durable <= at {
		return err
	}
	h.Durable = at
	if _, err := file.WriteAt(h.AppendTo(nil), 0); err != nil {
		return err
	}
	return file.Sync()
}

// PutHeader writes the header of a segment file in its place, durably. The size of the file becomes its capacity; a packed segment gets the header of one.
func PutHeader(fsys vfs.FS, seg *Segment, h format.SegmentHeader) (err error) {
	file, err := OpenSegmentFile(fsys, seg)
	if err != nil {
		return err
	}
	size, err := file.Size()
	var b []byte
	if p, ok := file.(*PackedFile); ok {
		b = format.AppendPackedHeader(nil, h, p.end, false)
	} else {
		h.Size = uint32(min(size, MaxSegment))
		b = h.AppendTo(nil)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	to, err := fsys.OpenRW(seg.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := to.WriteAt(b, 0); err != nil {
		return err
	}
	return to.Sync()
}

// EndsClean tells whether a segment file is as a log that nobody damaged ends at a log offset: it has the length that it was made with, and
// zeros alone from the offset on. Where a damaged header does not tell the length, the place of one frame header behind the offset must be there:
// a file that was cut short has lost no more than zeros then. The last segment of a log is not packed.
func EndsClean(fsys vfs.FS, seg SegmentInfo, at uint64) (bool, error) {
	file, err := OpenSegmentFile(fsys, seg.Segment())
	if err != nil {
		return false, err
	}
	defer file.Close() // only read
	size, err := file.Size()
	if err != nil {
		return false, err
	}
	h, fault, err := ReadSegmentHeader(file, seg.Segment())
	length := int64(h.Size)
	if fault != nil {
		length = seg.Segment().Offset(at) + format.FrameHeaderLen
	}
	if err != nil || size < length {
		return false, err
	}
	rest, err := searchRemains(file, *seg.Segment(), size, at)
	return err == nil && rest.bytes == 0, err
}

// FramesBehind looks in a segment file for the first whole frame that starts at a log offset or behind it, wherever
// damage ends. It returns where it starts, and the frames from there to the next damage. found is false if it starts
// behind last, or if there is none.
func FramesBehind(fsys vfs.FS, seg SegmentInfo, at, last uint64) (start uint64, frames [][]byte, found bool, err error) {
	file, err := OpenSegmentFile(fsys, seg.Segment())
	if err != nil {
		return 0, nil, false, err
	}
	defer file.Close() // only read
	size, err := file.Size()
	if err != nil {
		return 0, nil, false, err
	}
	rest, err := searchRemains(file, *seg.Segment(), size, at)
	if err != nil || rest.frames == 0 || rest.first > last {
		return 0, nil, false, err
	}
	limit := seg.Start + uint64(size-format.SegmentHeaderLen)
	if seg.End > 0 {
		limit = min(limit, seg.End)
	}
	var s Scanner
	s.Reset(file, *seg.Segment(), rest.first, limit)
	var f format.Frame
	for {
		fault, err := s.Next(&f)
		if fault != nil || err == io.EOF {
			return rest.first, frames, true, nil
		}
		if err != nil {
			return 0, nil, false, err
		}
		frames = append(frames, append([]byte(nil), f.Raw...))
	}
}
