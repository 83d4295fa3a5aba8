package logfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Walker reads segments in order and judges the first place where the log stops. It changes nothing: opening, checking,
// dumping and repairing all decide by it.
type Walker struct {
	FS   vfs.FS
	Dir  string
	Segs []Segment // consecutive by start offset; the first holds the offset to begin at

	// knownDurable is an offset that something outside the log vouches for: the newest image's.
	KnownDurable uint64

	// segment is called for each header that is valid, frame for each frame; both may be nil.
	Segment func(seg Segment, h *format.SegmentHeader) error
	Frame   func(seg Segment, f *format.Frame) error

	// Results.
	End     uint64               // where the log stops
	Claim   uint64               // all bytes below were durable when their maker said so
	CRC     uint32               // of the last frame, to chain the next segment; 0: none read
	Header  format.SegmentHeader // of the last segment with a valid one
	Frames  uint64
	TimeMS  int64       // of the last frame
	packed  *PackedFile // the segment's file, if it is one
	Torn    *format.TornTail
	scanner Scanner
}

// spot is the first place without a frame.
type spot struct {
	index int // in segs
	size  int64
	off   int64  // in the file
	pos   uint64 // log offset
	fault format.Fault
	err   error // ErrGap or nil
	sure  bool  // no power failure leaves this behind
}

// Run walks. It returns nil when the log is whole or ends in a torn tail (then torn is set), a *CorruptError when
// durable bytes are damaged, ErrUnsupportedFormat, or the error of a read or a callback.
func (w *Walker) Run() error {
	w.End = w.Segs[0].Start
	w.Claim = w.End
	for i := range w.Segs {
		bad, err := w.runSegment(i)
		if err != nil {
			return err
		}
		if bad != nil {
			return w.judge(bad)
		}
	}
	if claim := max(w.Claim, w.KnownDurable); w.End < claim {
		last := len(w.Segs) - 1
		return w.corrupt(&spot{index: last, off: w.Segs[last].Offset(w.End), pos: w.End, err: format.ErrGap, fault: format.Fault{
			Want: fmt.Sprintf("a log up to offset %d, which was durable", claim), Got: "its end"}}, 0)
	}
	return nil
}

// runSegment reads one segment up to where the next one starts. A clean end of the last one is no bad spot.
func (w *Walker) runSegment(i int) (bad *spot, err error) {
	seg := w.Segs[i]
	file, err := OpenSegmentFile(w.FS, &seg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	h, fault, err := ReadSegmentHeader(file, &seg)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return &spot{index: i, size: size, off: 0, pos: seg.Start, fault: *fault, sure: !fault.Empty}, nil
	}
	if i > 0 && h.Chain != w.CRC {
		return &spot{index: i, size: size, off: 56, pos: seg.Start, sure: true, fault: format.Fault{
			Want: fmt.Sprintf("chain %08x, the crc32c of the frame before", w.CRC), Got: fmt.Sprintf("%08x", h.Chain)}}, nil
	}
	w.Header = h
	if w.CRC == 0 {
		w.CRC = h.Chain
	}
	w.Claim = max(w.Claim, h.Durable)
	w.packed, _ = file.(*PackedFile)
	if w.Segment != nil {
		if err := w.Segment(seg, &h); err != nil {
			return nil, err
		}
	}
	limit := seg.Start + uint64(max(size-format.SegmentHeaderLen, 0))
	if i+1 < len(w.Segs) {
		limit = min(limit, w.Segs[i+1].Start)
	}
	w.scanner.Reset(file, seg, seg.Start, limit)
	var f format.Frame
	for {
		fault, err = w.scanner.Next(&f)
		if fault != nil || err != nil {
			break
		}
		w.Frames++
		w.End, w.CRC, w.TimeMS = w.scanner.Pos, f.CRC, f.TimeMS
		if !h.History.Replica {
			w.Claim = max(w.Claim, f.Durable)
		}
		if w.Frame != nil {
			if err := w.Frame(seg, &f); err != nil {
				return nil, err
			}
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	w.End = w.scanner.Pos
	bad = &spot{index: i, size: size, off: seg.Offset(w.End), pos: w.End}
	if fault != nil {
		bad.fault = *fault
	}
	if i+1 < len(w.Segs) {
		if w.End == w.Segs[i+1].Start {
			return nil, nil
		}
		if fault == nil || fault.Empty {
			bad.err = format.ErrGap
			bad.fault = format.Fault{Want: fmt.Sprintf("frames up to %d, where the next segment starts", w.Segs[i+1].Start), Got: "none"}
		}
		return bad, nil
	}
	if size < int64(h.Size) {
		bad.sure = true
		bad.fault = format.Fault{Want: fmt.Sprintf("a file of %d bytes, as it was made", h.Size), Got: fmt.Sprintf("%d", size)}
		return bad, nil
	}
	if fault == nil {
		return nil, nil // the file ends with a frame
	}
	rest, err := searchRemains(file, seg, size, w.End)
	if err != nil || rest.bytes == 0 {
		return nil, err // zeros to the end: preallocated, never written
	}
	return bad, nil
}

// judge decides whether the log was torn at a bad spot or is corrupt there: torn means that nothing valid, in this
// segment or a later one, and nothing outside the log says that bytes at or behind the spot were durable.
func (w *Walker) judge(bad *spot) error {
	w.End = bad.pos
	claim := max(w.Claim, w.KnownDurable)
	torn := &format.TornTail{
		File: w.Segs[bad.index].Path, Offset: bad.off, LogOffset: bad.pos,
		Reason: "want " + bad.fault.Want + ", got " + bad.fault.Got,
	}
	for i := bad.index; i < len(w.Segs); i++ {
		r, durable, err := w.remains(i, bad)
		if err != nil {
			return err
		}
		bad.sure = bad.sure || r.sure
		torn.Bytes += r.bytes
		torn.Frames += r.frames
		claim = max(claim, durable, r.claim)
	}
	if claim > bad.pos || bad.sure {
		return w.corrupt(bad, torn.Frames)
	}
	if torn.Bytes > 0 { // else only zeros are missing: a segment that got its name and nothing more
		w.Torn = torn
	}
	return nil
}

// remains searches the segment i, which is the bad one or follows it. The frames of a replica's segment carry the
// primary's claims, which say nothing about this disk.
func (w *Walker) remains(i int, bad *spot) (r remains, durable uint64, err error) {
	seg := w.Segs[i]
	file, err := OpenSegmentFile(w.FS, &seg)
	if err != nil {
		return r, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return r, 0, err
	}
	h, fault, err := ReadSegmentHeader(file, &seg)
	if err != nil {
		return r, 0, err
	}
	if fault == nil {
		durable = h.Durable
	} else {
		h.History = w.Header.History // as the segment before, or of a role that was taken since: all before it is durable
		past, err := ReadLineage(w.FS, w.Dir)
		if err != nil {
			return r, 0, err
		}
		h.History.Replica = h.History.Replica || past.Replica
	}
	from := seg.Start
	if i == bad.index {
		from = max(from, bad.pos)
	}
	if r, err = searchRemains(file, seg, size, from); err != nil {
		return r, 0, err
	}
	// A segment has a header, durably, before its name. That of the bad one was judged before.
	r.sure = fault != nil && !fault.Empty && i > bad.index
	if h.History.Replica {
		r.claim = 0
	}
	return r, durable, nil
}

// corrupt builds the error for a bad spot.
func (w *Walker) corrupt(bad *spot, later int) error {
	return &format.CorruptError{
		Dir: w.Dir, File: w.Segs[bad.index].Path, Offset: bad.off, LogOffset: bad.pos,
		Want: bad.fault.Want, Got: bad.fault.Got, LaterFrames: later, Err: bad.err,
	}
}

// WholeFrom returns first, or the segment before it if first got its name but its header was lost in a crash: history
// and chain are then the ones before.
func WholeFrom(fsys vfs.FS, segs []Segment, first int) (int, error) {
	for ; first > 0; first-- {
		file, err := OpenSegmentFile(fsys, &segs[first])
		if err != nil {
			return 0, err
		}
		_, fault, err := ReadSegmentHeader(file, &segs[first])
		if err = errors.Join(err, file.Close()); err != nil {
			return 0, err
		}
		if fault == nil {
			break
		}
	}
	return first, nil
}
