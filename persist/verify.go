package persist

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Verify reads all of the log that is kept and durable, and returns what is damaged: a *CorruptError a segment, with the
// first bad place in it, or the error of a read. Segments that are dropped meanwhile are passed over. pace, if not nil,
// is called now and then with the bytes read since; an error of pace ends it, and is returned as err. It takes no lock
// while it reads.
func (l *Log) Verify(pace func(bytes int) error) (bad []error, err error) {
	durable := l.Durable()
	v := verifier{log: l, pace: pace}
	for _, seg := range l.Segments() {
		end := min(seg.End, durable)
		if seg.Start >= end {
			continue
		}
		err := v.segment(*seg.segment(), end)
		var stopped *stoppedError
		switch {
		case err == nil:
		case errors.As(err, &stopped):
			return bad, stopped.err
		default:
			bad = append(bad, err)
		}
	}
	return bad, nil
}

// verifier reads the segments of an open log in order.
type verifier struct {
	log     *Log
	pace    func(bytes int) error
	scanner scanner
	crc     uint32 // of the frame before the next segment; 0: not known
}

// stoppedError is an error of pace.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// segment verifies one. Its file may be replaced, by Pack or after disk trouble, or dropped while it is read: it is
// looked at again then.
func (v *verifier) segment(seg segment, end uint64) error {
	before := v.crc
	for {
		layout := v.log.layout.Load()
		v.crc = before
		err := v.read(seg, end)
		var stopped *stoppedError
		if err == nil || errors.As(err, &stopped) {
			return err
		}
		v.crc = 0
		if !slices.ContainsFunc(v.log.Segments(), func(s SegmentInfo) bool { return *s.segment() == seg }) {
			return nil
		}
		if v.log.layout.Load() == layout {
			return err
		}
	}
}

// read verifies a segment's header, its chain to the segment before, and its frames up to a log offset.
func (v *verifier) read(seg segment, end uint64) (err error) {
	opts := &v.log.opts
	file, err := openSegmentFile(opts.FS, &seg)
	if err != nil {
		return fmt.Errorf("%s: %w", seg.path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	bad := func(pos uint64, off int64, fault *frameFault) error {
		return &CorruptError{File: seg.path, Offset: off, LogOffset: pos, Want: fault.want, Got: fault.got}
	}
	h, fault, err := readSegmentHeader(file, &seg)
	switch {
	case err != nil:
		return err
	case fault != nil:
		return bad(seg.start, 0, fault)
	case v.crc != 0 && h.chain != v.crc:
		return bad(seg.start, 56, &frameFault{want: fmt.Sprintf("chain %08x, the crc32c of the frame before", v.crc), got: fmt.Sprintf("%08x", h.chain)})
	}
	v.scanner.reset(file, seg, seg.start, end)
	var f Frame
	for paced := seg.start; ; {
		fault, err := v.scanner.next(&f)
		if read := int(v.scanner.pos - paced); v.pace != nil && (read >= scanBufferLen || err == io.EOF && read > 0) {
			paced = v.scanner.pos
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
			return bad(v.scanner.pos, seg.offset(v.scanner.pos), fault)
		}
		v.crc = f.CRC
	}
}
