package datadir

import (
	"errors"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// readLineage reads whose log it is. Without a good HISTORY the copy shares its past with nobody.
func (r *restore) readLineage() (err error) {
	r.past, err = logfile.ReadLineage(r.fsys, r.dir)
	if errors.Is(err, format.ErrCorrupt) {
		r.sayf("%v: replicas of what is restored will need a full copy", err)
		r.past = format.Lineage{NeedsSnapshot: true} // nobody knows
		return nil
	}
	if err == nil {
		r.fsys, err = finishedView(r.fsys, r.dir, &r.past)
	}
	return err
}

// writeLineage writes the copy's: the past of dir as far as the log is the same, then a term of its own.
func (r *restore) writeLineage(h format.History) error {
	l := r.past.Cut(r.common)
	l.Replica = false
	l.NeedsSnapshot = l.NeedsSnapshot && r.result.Snapshot > 0
	t := format.Term{ReplID: h.ReplID, Epoch: h.Epoch + 1, Start: r.common}
	if n := len(l.Terms); n == 0 {
		t.Start = 0
	} else {
		t.Epoch = max(t.Epoch, l.Terms[n-1].Epoch+1)
	}
	l.Add(t)
	return logfile.WriteLineage(r.to, r.out, &l)
}

// copyLog writes the log from the replay offset to the target. stands is the offset that it must reach at least.
func (r *restore) copyLog(stands uint64) (format.History, error) {
	from := r.result.Replay
	now := format.History{ReplID: r.result.History} // of changes after the restore, and of a frame that is cut
	then := func(start uint64) format.History {
		if len(r.past.Terms) == 0 {
			return now
		}
		h := r.past.At(start)
		h.Replica = false
		return h
	}
	w := logfile.NewCopy(r.to, r.out, from, then(from))
	reached, ended := from, false
	r.common = from
	var last int64 // time of the last frame up to reached
	walked, err := logfile.Walk(r.fsys, r.dir, max(from, 1)-1, 0, logfile.Visitor{
		Segment: func(h logfile.Header) error {
			now.Epoch = max(now.Epoch, h.History.Epoch)
			return nil
		},
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			if f.End() <= from {
				last = f.TimeMS
				return nil
			}
			if f.Start >= r.target.Offset {
				ended = true
				return io.EOF
			}
			raw, history := f.Raw, then(f.Start)
			r.common = f.Start
			if f.End() > r.target.Offset {
				var err error
				if raw, err = f.Cut(r.target.Offset); err != nil {
					return err
				}
				history, ended = now, true
			}
			if raw == nil {
				return io.EOF
			}
			if err := w.Begin(history); err != nil {
				return err
			}
			if err := w.Append(f.Start, raw); err != nil {
				return err
			}
			reached, last = w.End(), f.TimeMS
			if len(raw) == len(f.Raw) {
				r.common = reached
			}
			if ended {
				return io.EOF
			}
			return nil
		},
	})
	var corrupt *format.CorruptError
	if errors.As(err, &corrupt) && !ended && corrupt.LogOffset >= reached && corrupt.LogOffset >= r.target.Offset {
		err = nil // the damage lies behind
	}
	if err == nil && (reached < stands || !ended && walked.End < r.target.Offset) {
		err = errNoBase
	}
	r.result.Offset, r.result.TimeMS = reached, last
	if err = errors.Join(err, w.Finish()); err != nil {
		return format.History{}, err
	}
	r.result.Bytes += w.Bytes()
	return now, nil
}
