package persist

import (
	"errors"
	"fmt"
	"io"

	"github.com/counterd/counterd/persist/vfs"
)

// walk reads segments in order and judges the first place where the log stops. It changes nothing: opening, checking,
// dumping and repairing all decide by it.
type walk struct {
	fsys vfs.FS
	dir  string
	segs []segment // consecutive by start offset; the first holds the offset to begin at

	// knownDurable is an offset that something outside the log vouches for: the newest image's.
	knownDurable uint64

	// segment is called for each header that is valid, frame for each frame; both may be nil.
	segment func(seg segment, h *segmentHeader) error
	frame   func(seg segment, f *Frame) error

	// Results.
	end     uint64        // where the log stops
	claim   uint64        // all bytes below were durable when their maker said so
	crc     uint32        // of the last frame, to chain the next segment; 0: none read
	header  segmentHeader // of the last segment with a valid one
	frames  uint64
	timeMS  int64       // of the last frame
	packed  *packedFile // the segment's file, if it is one
	torn    *TornTail
	scanner scanner
}

// spot is the first place without a frame.
type spot struct {
	index int // in segs
	size  int64
	off   int64  // in the file
	pos   uint64 // log offset
	fault frameFault
	err   error // ErrGap or nil
	sure  bool  // no power failure leaves this behind
}

// run walks. It returns nil when the log is whole or ends in a torn tail (then torn is set), a *CorruptError when
// durable bytes are damaged, ErrUnsupportedFormat, or the error of a read or a callback.
func (w *walk) run() error {
	w.end = w.segs[0].start
	w.claim = w.end
	for i := range w.segs {
		bad, err := w.runSegment(i)
		if err != nil {
			return err
		}
		if bad != nil {
			return w.judge(bad)
		}
	}
	if claim := max(w.claim, w.knownDurable); w.end < claim {
		last := len(w.segs) - 1
		return w.corrupt(&spot{index: last, off: w.segs[last].offset(w.end), pos: w.end, err: ErrGap, fault: frameFault{
			want: fmt.Sprintf("a log up to offset %d, which was durable", claim), got: "its end"}}, 0)
	}
	return nil
}

// runSegment reads one segment up to where the next one starts. A clean end of the last one is no bad spot.
func (w *walk) runSegment(i int) (bad *spot, err error) {
	seg := w.segs[i]
	file, err := openSegmentFile(w.fsys, &seg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	h, fault, err := readSegmentHeader(file, &seg)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return &spot{index: i, size: size, off: 0, pos: seg.start, fault: *fault, sure: !fault.empty}, nil
	}
	if i > 0 && h.chain != w.crc {
		return &spot{index: i, size: size, off: 56, pos: seg.start, sure: true, fault: frameFault{
			want: fmt.Sprintf("chain %08x, the crc32c of the frame before", w.crc), got: fmt.Sprintf("%08x", h.chain)}}, nil
	}
	w.header = h
	if w.crc == 0 {
		w.crc = h.chain
	}
	w.claim = max(w.claim, h.durable)
	w.packed, _ = file.(*packedFile)
	if w.segment != nil {
		if err := w.segment(seg, &h); err != nil {
			return nil, err
		}
	}
	limit := seg.start + uint64(max(size-segmentHeaderLen, 0))
	if i+1 < len(w.segs) {
		limit = min(limit, w.segs[i+1].start)
	}
	w.scanner.reset(file, seg, seg.start, limit)
	var f Frame
	for {
		fault, err = w.scanner.next(&f)
		if fault != nil || err != nil {
			break
		}
		w.frames++
		w.end, w.crc, w.timeMS = w.scanner.pos, f.CRC, f.TimeMS
		if !h.history.Replica {
			w.claim = max(w.claim, f.Durable)
		}
		if w.frame != nil {
			if err := w.frame(seg, &f); err != nil {
				return nil, err
			}
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	w.end = w.scanner.pos
	bad = &spot{index: i, size: size, off: seg.offset(w.end), pos: w.end}
	if fault != nil {
		bad.fault = *fault
	}
	if i+1 < len(w.segs) {
		if w.end == w.segs[i+1].start {
			return nil, nil
		}
		if fault == nil || fault.empty {
			bad.err = ErrGap
			bad.fault = frameFault{want: fmt.Sprintf("frames up to %d, where the next segment starts", w.segs[i+1].start), got: "none"}
		}
		return bad, nil
	}
	if size < int64(h.size) {
		bad.sure = true
		bad.fault = frameFault{want: fmt.Sprintf("a file of %d bytes, as it was made", h.size), got: fmt.Sprintf("%d", size)}
		return bad, nil
	}
	if fault == nil {
		return nil, nil // the file ends with a frame
	}
	rest, err := searchRemains(file, seg, size, w.end)
	if err != nil || rest.bytes == 0 {
		return nil, err // zeros to the end: preallocated, never written
	}
	return bad, nil
}

// judge decides whether the log was torn at a bad spot or is corrupt there: torn means that nothing valid, in this
// segment or a later one, and nothing outside the log says that bytes at or behind the spot were durable.
func (w *walk) judge(bad *spot) error {
	w.end = bad.pos
	claim := max(w.claim, w.knownDurable)
	torn := &TornTail{
		File: w.segs[bad.index].path, Offset: bad.off, LogOffset: bad.pos,
		Reason: "want " + bad.fault.want + ", got " + bad.fault.got,
	}
	for i := bad.index; i < len(w.segs); i++ {
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
		w.torn = torn
	}
	return nil
}

// remains searches the segment i, which is the bad one or follows it. The frames of a replica's segment carry the
// primary's claims, which say nothing about this disk.
func (w *walk) remains(i int, bad *spot) (r remains, durable uint64, err error) {
	seg := w.segs[i]
	file, err := openSegmentFile(w.fsys, &seg)
	if err != nil {
		return r, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return r, 0, err
	}
	h, fault, err := readSegmentHeader(file, &seg)
	if err != nil {
		return r, 0, err
	}
	if fault == nil {
		durable = h.durable
	} else {
		h.history = w.header.history // as the segment before, or of a role that was taken since: all before it is durable
		past, err := ReadLineage(w.fsys, w.dir)
		if err != nil {
			return r, 0, err
		}
		h.history.Replica = h.history.Replica || past.Replica
	}
	from := seg.start
	if i == bad.index {
		from = max(from, bad.pos)
	}
	if r, err = searchRemains(file, seg, size, from); err != nil {
		return r, 0, err
	}
	// A segment has a header, durably, before its name. That of the bad one was judged before.
	r.sure = fault != nil && !fault.empty && i > bad.index
	if h.history.Replica {
		r.claim = 0
	}
	return r, durable, nil
}

// corrupt builds the error for a bad spot.
func (w *walk) corrupt(bad *spot, later int) error {
	return &CorruptError{
		Dir: w.dir, File: w.segs[bad.index].path, Offset: bad.off, LogOffset: bad.pos,
		Want: bad.fault.want, Got: bad.fault.got, LaterFrames: later, Err: bad.err,
	}
}
