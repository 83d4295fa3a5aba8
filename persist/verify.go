package persist

import (
	"errors"
	"fmt"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// BadSegment is a segment that is damaged: Err is a *CorruptError with the first bad place in it, or the error of a read.
type BadSegment struct {
	Start, End uint64 // log offsets; the last segment ends at the written offset
	Last       bool   // it is appended to
	Err        error
}

// Verify reads all of the log that is kept and durable, and returns what is damaged. Segments that are dropped meanwhile are passed over. pace, if not nil,
// is called now and then with the bytes read since; an error of pace ends it, and is returned as err. It takes no lock
// while it reads.
func (s *SegmentList) Verify(pace func(bytes int) error) (bad []*BadSegment, err error) {
	durable := s.files.progress.durable.Load()
	v := verifier{list: s, pace: pace}
	segs := s.List()
	for i, seg := range segs {
		end := min(seg.End, durable)
		if seg.Start >= end {
			continue
		}
		err := v.segment(*seg.Segment(), end)
		var stopped *stoppedError
		switch {
		case err == nil:
		case errors.As(err, &stopped):
			return bad, stopped.err
		default:
			bad = append(bad, &BadSegment{Start: seg.Start, End: seg.End, Last: i == len(segs)-1, Err: err})
		}
	}
	return bad, nil
}

// verifier reads the segments of an open log in order.
type verifier struct {
	list    *SegmentList
	pace    func(bytes int) error
	scanner logfile.Scanner
	crc     uint32 // of the frame before the next segment; 0: not known

	indexFault error // of the segment that was read last, if it is packed: its frames can be read all the same
}

// stoppedError is an error of pace.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// Segment verifies one. Its file may be replaced, by Pack or after disk trouble, or dropped while it is read: it is
// looked at again then.
func (v *verifier) segment(seg logfile.Segment, end uint64) error {
	before := v.crc
	for {
		layout := v.list.files.progress.layout.Load()
		v.crc = before
		err := v.read(seg, end)
		if err == nil {
			err = v.indexFault
		}
		var stopped *stoppedError
		if err == nil || errors.As(err, &stopped) {
			return err
		}
		v.crc = 0
		if !v.list.keeps(&seg) {
			return nil
		}
		if v.list.files.progress.layout.Load() == layout {
			return err
		}
	}
}

// read verifies a segment's header, its chain to the segment before, and its frames up to a log offset.
func (v *verifier) read(seg logfile.Segment, end uint64) (err error) {
	file, err := logfile.OpenSegmentFile(v.list.files.maker.FS, &seg)
	if err != nil {
		return fmt.Errorf("%s: %w", seg.Path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	v.indexFault = logfile.IndexDamage(file)
	bad := func(pos uint64, off int64, fault *format.Fault) error {
		return &format.CorruptError{File: seg.Path, Offset: off, LogOffset: pos, Want: fault.Want, Got: fault.Got}
	}
	h, fault, err := logfile.ReadSegmentHeader(file, &seg)
	switch {
	case err != nil:
		return err
	case fault != nil:
		return bad(seg.Start, 0, fault)
	case v.crc != 0 && h.Chain != v.crc:
		return bad(seg.Start, 56, &format.Fault{Want: fmt.Sprintf("chain %08x, the crc32c of the frame before", v.crc), Got: fmt.Sprintf("%08x", h.Chain)})
	}
	v.scanner.Reset(file, seg, seg.Start, end)
	var f format.Frame
	for paced := seg.Start; ; {
		fault, err := v.scanner.Next(&f)
		if read := int(v.scanner.Pos - paced); v.pace != nil && (read >= logfile.ScanBufferLen || err == io.EOF && read > 0) {
			paced = v.scanner.Pos
			if err := v.pace(read); err != nil {
				return &stoppedError{err}
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case fault != nil:
			return bad(v.scanner.Pos, seg.Offset(v.scanner.Pos), fault)
		}
		v.crc = f.CRC
	}
}
