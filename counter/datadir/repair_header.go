package datadir

import (
	"errors"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
)

// mendHeader writes the damaged header of a segment again, and returns true, if the frames behind it show its content. A frame has its log offset
// and its checksum in itself, and the segments around say the rest. Nothing is lost then, so the log keeps its history, and replicas go on with it.
// Damage further behind in the segment is another walk's.
//
// INVARIANT: the history is the one in which the log has these bytes: as HISTORY says and admits, or, where HISTORY is damaged too, that of the
// segment before or behind, if the frames are of the same epoch.
func (r *repair) mendHeader(bad *format.CorruptError) (bool, error) {
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(segs, func(s logfile.SegmentInfo) bool { return s.Path == bad.File })
	if i < 0 || segs[i].Start != bad.LogOffset {
		return false, nil
	}
	seg := segs[i]
	if _, fault, err := logfile.SegmentHeaderOf(r.fsys, seg.Segment()); fault == nil || err != nil { // it is the first frame that is damaged
		return false, err
	}
	epoch, some, err := r.firstEpoch(seg)
	if err != nil {
		return false, err
	}
	if !some { // an empty one: the last, and as it was made
		clean, err := logfile.EndsClean(r.fsys, seg, seg.Start)
		if err != nil || !clean || i+1 < len(segs) || max(r.claim, r.known, r.replay()) > seg.Start || r.base != nil && r.base.Offset > seg.Start {
			return false, err
		}
	}
	history, ok, err := r.historyOf(segs[i:], epoch, some)
	if err != nil || !ok {
		return false, err
	}
	h := format.SegmentHeader{History: history, Start: seg.Start, Durable: seg.Start}
	if r.walked.End == seg.Start {
		h.Chain = r.walked.Chain
	}
	r.sayf("%s: the header is written again: the frames behind it are whole, and nothing is lost by it", seg.Path)
	if err := r.copyAside(seg.Path); err != nil {
		return false, err
	}
	return true, logfile.PutHeader(r.fsys, seg.Segment(), h)
}

// mendOldHeaders does the same for segments that no start reads: replicas, backups and restores may need them. Other damage of such segments stays.
func (r *repair) mendOldHeaders() error {
	segs, err := logfile.ListSegments(r.fsys, r.dir)
	if err != nil {
		return err
	}
	now := r.walked
	defer func() { r.walked = now }()
	for i := range segs {
		if segs[i].Start >= now.First {
			return nil
		}
		if _, fault, err := logfile.SegmentHeaderOf(r.fsys, &segs[i]); fault == nil || err != nil { // a file that cannot be read stays, too
			continue
		}
		var corrupt *format.CorruptError
		if r.walked, err = logfile.Walk(r.fsys, r.dir, segs[i].Start, 0, logfile.Visitor{}); !errors.As(err, &corrupt) {
			continue
		}
		if _, err := r.mendHeader(corrupt); err != nil {
			return err
		}
	}
	return nil
}

// firstEpoch returns the epoch of the frame with which a segment begins; some is false if no whole frame begins there.
func (r *repair) firstEpoch(seg logfile.SegmentInfo) (epoch uint32, some bool, err error) {
	_, frames, found, err := logfile.FramesBehind(r.fsys, seg, seg.Start, seg.Start)
	if err != nil || !found {
		return 0, false, err
	}
	var f format.Frame
	if fault := format.DecodeFrame(frames[0], seg.Start, &f); fault != nil {
		return 0, false, nil
	}
	return f.Epoch, true, nil
}

// historyOf returns the history of the first of segments, which begins with a frame of an epoch, or has none. ok is false if it is not known.
func (r *repair) historyOf(segs []logfile.SegmentInfo, epoch uint32, some bool) (h format.History, ok bool, err error) {
	at := segs[0].Start
	l, err := logfile.ReadLineage(r.fsys, r.dir)
	switch {
	case err != nil:
		return h, false, err
	case len(l.Terms) > 0:
		return past.HistoryAt(&l, at), !some || l.Admits(at, epoch) == nil, nil
	case !some:
		return h, false, nil
	}
	if h = r.walked.History; r.walked.End == at && h.Epoch == epoch && h.ReplID != (format.ReplID{}) {
		return h, true, nil
	}
	if len(segs) == 1 {
		return h, false, nil
	}
	next, fault, err := logfile.SegmentHeaderOf(r.fsys, segs[1].Segment())
	return next.History, fault == nil && err == nil && next.History.Epoch == epoch, nil // damage of that file is mended later
}
