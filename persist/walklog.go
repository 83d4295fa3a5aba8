package persist

import (
	"errors"
	"io"

	"github.com/counterd/counterd/persist/vfs"
)

// LogVisitor is told what WalkLog reads, in log order. Any of its functions may be nil. One that returns io.EOF ends
// the walk without an error, any other error ends it with that one.
type LogVisitor struct {
	Segment func(SegmentHeader) error
	Frame   func(SegmentInfo, *Frame) error // the frame is valid during the call
	Record  func(f *Frame, pos uint64, rec *Record) error
}

// SegmentHeader is a segment file's header.
type SegmentHeader struct {
	SegmentInfo
	History History
	Durable uint64 // all bytes below were durable when the file got its name
	Chain   uint32 // checksum of the frame before
	// Harmless is damage of the file that costs nothing, of the index of one that is packed: a *CorruptError.
	Harmless error
}

// LogWalk is what WalkLog found.
type LogWalk struct {
	First, End uint64 // log offsets
	Segments   int
	Frames     uint64
	Records    uint64 // given to Record
	TimeMS     int64  // of the last frame
	Chain      uint32 // checksum of the last frame
	History    History
	Torn       *TornTail // how the log ends, if not cleanly; nothing was cut
}

// WalkLog reads the log of a data directory that nobody appends to, from the segment that holds an offset, and changes
// nothing. Records that end at or before from are not told; frames of its segment are. knownDurable is as in
// LogOptions. Damage gives a *CorruptError after everything before it was told.
func WalkLog(fsys vfs.FS, dir string, from, knownDurable uint64, v LogVisitor) (LogWalk, error) {
	segs, err := listSegments(fsys, dir)
	if err != nil {
		return LogWalk{}, err
	}
	if len(segs) == 0 {
		return LogWalk{}, &CorruptError{Dir: dir, File: LogDir(dir), LogOffset: from, Want: "log segments", Got: "none", Err: ErrGap}
	}
	first := len(segs) - 1
	for first > 0 && segs[first].start > from {
		first--
	}
	if first, err = wholeFrom(fsys, segs, first); err != nil {
		return LogWalk{}, err
	}
	w := walk{fsys: fsys, dir: dir, segs: segs[first:], knownDurable: knownDurable}
	result := LogWalk{First: segs[first].start}
	var info SegmentInfo
	w.segment = func(seg segment, h *segmentHeader) error {
		result.Segments++
		info = SegmentInfo{Path: seg.path, Start: seg.start}
		if i := result.Segments; i < len(w.segs) {
			info.End = w.segs[i].start
		}
		if v.Segment == nil {
			return nil
		}
		header := SegmentHeader{SegmentInfo: info, History: h.history, Durable: h.durable, Chain: h.chain}
		if p := w.packed; p != nil {
			header.Packed = true
			if fault := p.indexFault; fault != nil {
				header.Harmless = &CorruptError{Dir: dir, File: seg.path, Offset: p.index, LogOffset: seg.start, Want: fault.want, Got: fault.got}
			}
		}
		return v.Segment(header)
	}
	var rec Record
	w.frame = func(seg segment, f *Frame) error {
		if v.Frame != nil {
			if err := v.Frame(info, f); err != nil {
				return err
			}
		}
		if v.Record == nil || f.End() <= from {
			return nil
		}
		err := f.Records(&rec, from, func(pos uint64, rec *Record) error {
			result.Records++
			return v.Record(f, pos, rec)
		})
		return badRecord(err, dir, seg, f)
	}
	err = w.run()
	result.End, result.Frames, result.TimeMS, result.Torn = w.end, w.frames, w.timeMS, w.torn
	result.Chain, result.History = w.crc, w.header.history
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return result, err
}

// badRecord gives the error of a record that cannot be decoded its place. The frame's checksum is right: another
// program wrote it.
func badRecord(err error, dir string, seg segment, f *Frame) error {
	var bad *RecordError
	if !errors.As(err, &bad) {
		return err
	}
	return &CorruptError{Dir: dir, File: seg.path, Offset: seg.offset(f.Start), LogOffset: f.Start,
		Want: "known records", Got: "something else", Err: err}
}
