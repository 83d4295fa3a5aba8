package logfile

import (
	"errors"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Visitor has the functions that Walk calls with what it reads, in log order. Each of them may be nil. If a function returns
// io.EOF, Walk stops and returns nil. If it returns any other error, Walk stops and returns that error.
type Visitor struct {
	Segment func(Header) error
	Frame   func(SegmentInfo, *format.Frame) error // the frame is valid during the call
	Record  func(f *format.Frame, pos uint64, rec *format.Record) error
}

// Header is a segment file's header.
type Header struct {
	SegmentInfo
	History format.History
	Durable uint64 // all bytes below were durable when the file got its name
	Chain   uint32 // checksum of the frame before
	// Harmless is damage of the file that costs nothing, of the index of one that is packed: a *CorruptError.
	Harmless error
}

// Walked is what Walk found.
type Walked struct {
	First, End uint64 // log offsets
	Segments   int
	Frames     uint64
	Records    uint64 // given to Record
	TimeMS     int64  // of the last frame
	Chain      uint32 // checksum of the last frame
	History    format.History
	Torn       *format.TornTail // how the log ends, if not cleanly; nothing was cut
}

// Walk reads the log of a data directory, from the segment that holds an offset, and changes nothing. The log must not be
// open. Walk does not call Record for records that end at or before from, but it calls Frame for all frames of that
// segment. knownDurable is as in LogOptions. At damage Walk returns a *CorruptError, after it has passed on everything before
// the damage.
func Walk(fsys vfs.FS, dir string, from, knownDurable uint64, v Visitor) (Walked, error) {
	segs, err := ListSegments(fsys, dir)
	if err != nil {
		return Walked{}, err
	}
	if len(segs) == 0 {
		return Walked{}, &format.CorruptError{Dir: dir, File: format.LogDir(dir), LogOffset: from, Want: "log segments", Got: "none", Err: format.ErrGap}
	}
	first := len(segs) - 1
	for first > 0 && segs[first].Start > from {
		first--
	}
	if first, err = WholeFrom(fsys, segs, first); err != nil {
		return Walked{}, err
	}
	w := Walker{FS: fsys, Dir: dir, Segs: segs[first:], KnownDurable: knownDurable}
	result := Walked{First: segs[first].Start}
	var info SegmentInfo
	w.Segment = func(seg Segment, h *format.SegmentHeader) error {
		result.Segments++
		info = SegmentInfo{Path: seg.Path, Start: seg.Start}
		if i := result.Segments; i < len(w.Segs) {
			info.End = w.Segs[i].Start
		}
		if v.Segment == nil {
			return nil
		}
		header := Header{SegmentInfo: info, History: h.History, Durable: h.Durable, Chain: h.Chain}
		if p := w.packed; p != nil {
			header.Packed = true
			header.Harmless = IndexDamage(p)
		}
		return v.Segment(header)
	}
	var rec format.Record
	w.Frame = func(seg Segment, f *format.Frame) error {
		if v.Frame != nil {
			if err := v.Frame(info, f); err != nil {
				return err
			}
		}
		if v.Record == nil || f.End() <= from {
			return nil
		}
		err := f.Records(&rec, from, func(pos uint64, rec *format.Record) error {
			result.Records++
			return v.Record(f, pos, rec)
		})
		return BadRecord(err, dir, seg, f)
	}
	err = w.Run()
	result.End, result.Frames, result.TimeMS, result.Torn = w.End, w.Frames, w.TimeMS, w.Torn
	result.Chain, result.History = w.CRC, w.Header.History
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return result, err
}

// BadRecord gives the error of a record that cannot be decoded its place. The frame's checksum is right: another
// program wrote it.
func BadRecord(err error, dir string, seg Segment, f *format.Frame) error {
	var bad *format.RecordError
	if !errors.As(err, &bad) {
		return err
	}
	return &format.CorruptError{Dir: dir, File: seg.Path, Offset: seg.Offset(f.Start), LogOffset: f.Start,
		Want: "known records", Got: "something else", Err: err}
}

// VerifyFrame decodes all records of a frame. A record that cannot be decoded gives a *CorruptError with the frame's place
// in the segment; dir is the data directory.
func VerifyFrame(f *format.Frame, dir string, seg SegmentInfo) error {
	var rec format.Record
	return BadRecord(f.Records(&rec, 0, func(uint64, *format.Record) error { return nil }), dir, *seg.Segment(), f)
}
