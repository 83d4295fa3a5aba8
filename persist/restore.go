package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A segment that is damaged while the log is open has its bytes elsewhere: a log of the same terms has the same frames at the
// same offsets. So its file is made again, of the frames that are whole here and of those that other nodes give. Two nodes whose
// segments are damaged at different places thus complete each other:
//
//  1. a last segment is ended: another one is begun (NewSegment)
//  2. header and frames go into a temporary file; only frames that are not whole here are fetched;
//     each frame is checked, and the header of the next
//     segment must name the last one as the frame before it. Where that header is damaged too, a whole frame of this
//     segment must be the same at the other node
//  3. the file is synced and takes the segment's name, as a packed one does
//
// A crash before the last step leaves the damaged file.

// ErrLastSegment: the segment is still appended to.
var ErrLastSegment = errors.New("the segment is still appended to")

// errNewSegment is the trouble for which NewSegment begins a segment.
var errNewSegment = errors.New("the last segment is damaged")

// NewSegment makes all bytes durable and begins a new segment behind them, so that the one before is not written any more.
// Errors as Sync, and of the disk.
func NewSegment(l *Log) error {
	if _, err := l.files.maker.Fitting(l.files.maker.Least); err != nil { // a log that works must not come into trouble
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.committer
	if err := c.syncAll(); err != nil {
		return err
	}
	if c.calls.closed {
		return fmt.Errorf("log: %w", format.ErrClosed)
	}
	if c.healer.trouble == nil {
		c.healer.blame(errNewSegment)
		c.healer.delay = firstHealDelay
		c.heal()
	}
	if c.healer.trouble != nil {
		return c.healer.refusal()
	}
	return nil
}

// LastGone tells whether nothing is wrong with the directory but that the file of the last segment is not there.
func (s *SegmentList) LastGone() bool {
	if s.files.maker.Guarded() != nil {
		return false
	}
	layout := s.files.progress.layout.Load()
	listed, err := logfile.ListSegments(s.files.maker.FS, s.files.maker.Dir)
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	n := len(s.files.segs)
	if err != nil || s.files.active == nil || s.calls.healing() || s.files.progress.layout.Load() != layout { // begun behind the listing
		return false
	}
	return len(listed) == 0 && n == 1 || len(listed) > 0 && n > 1 && listed[len(listed)-1] == s.files.segs[n-2]
}

// Restore makes the file of the segment that starts at an offset again. fetch returns whole frames of another node's log that
// begin at a log offset, as many as it likes, and none behind end. past has the terms of this log. The error is ErrGone if
// there is no such segment, ErrLastSegment, an error of fetch, or a *CorruptError if the frames are not those of the log.
// Nothing was changed then.
func (s *SegmentList) Restore(start uint64, past *format.Lineage, fetch func(from, end uint64) ([]byte, error)) error {
	r := restoring{list: s, past: past, fetch: fetch}
	if err := r.find(start); err != nil {
		return err
	}
	maker := s.files.maker
	temp := maker.TempPath()
	to, err := maker.FS.Create(temp)
	if err != nil {
		return err
	}
	err = r.write(to)
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = s.replace(&r.seg, r.end, temp)
	}
	if err != nil {
		_ = maker.FS.Remove(temp) // else at the next start
		if !s.keeps(&r.seg) {
			err = errors.Join(goneError(start), err)
		}
		return err
	}
	s.files.lock.Lock()
	delete(s.files.packed, start)
	s.files.sumPacked()
	s.files.progress.layout.Add(1) // readers open the new file
	s.files.lock.Unlock()
	return maker.FS.SyncDir(format.LogDir(maker.Dir))
}

// restoring is a segment whose file is made again.
type restoring struct {
	list  *SegmentList
	past  *format.Lineage
	fetch func(from, end uint64) ([]byte, error)

	seg  logfile.Segment
	end  uint64
	prev *logfile.Segment // before it; nil: it is the first one
	next logfile.Segment

	own   logfile.Scanner // of the damaged file
	whole []byte          // the first frame that is whole in it; nil: there is none
	at    uint64          // where that starts
	off   int64           // in the new file
	crc   uint32
}

// find looks the segment up.
func (r *restoring) find(start uint64) error {
	f := r.list.files
	f.lock.Lock()
	defer f.lock.Unlock()
	for i, seg := range f.segs {
		switch {
		case seg.Start != start:
		case i+1 == len(f.segs) || f.segs[i+1].Start > f.progress.durable.Load():
			return fmt.Errorf("log segment %d: %w", start, ErrLastSegment)
		default:
			if r.seg, r.next, r.end = seg, f.segs[i+1], f.segs[i+1].Start; i > 0 {
				prev := f.segs[i-1]
				r.prev = &prev
			}
			return nil
		}
	}
	return goneError(start)
}

func goneError(start uint64) error { return fmt.Errorf("log segment %d: %w", start, format.ErrGone) }

// write makes the content of the file.
func (r *restoring) write(to vfs.File) error {
	fsys := r.list.files.maker.FS
	next, damage := r.headerOf(&r.next)
	if damage != nil && (!errors.Is(damage, format.ErrCorrupt) || vfs.IsTrouble(damage)) {
		return damage
	}
	was, err := logfile.OpenSegmentFile(fsys, &r.seg)
	if err == nil {
		defer was.Close()
	}
	head, known := format.SegmentHeader{}, false
	if err == nil {
		var fault *format.Fault
		head, fault, err = logfile.ReadSegmentHeader(was, &r.seg)
		known = err == nil && fault == nil
	}
	if !known {
		if head, err = r.newHeader(); err != nil {
			return err
		}
	}
	head.Size = uint32(r.seg.Offset(r.end))
	if err := r.put(to, head.AppendTo(nil)); err != nil {
		return err
	}
	for pos := r.seg.Start; pos < r.end; {
		if was != nil {
			if pos, err = r.keep(to, was, pos); err != nil {
				return err
			}
		}
		if pos == r.end {
			break
		}
		raw, err := r.fetch(pos, r.end)
		if err != nil {
			return err
		}
		if pos, err = r.check(pos, raw, was); err != nil {
			return err
		}
		if err := r.put(to, raw); err != nil {
			return err
		}
	}
	if damage != nil {
		if err := r.sameLog(); err != nil {
			return errors.Join(damage, err)
		}
		return nil
	}
	if r.crc != next.Chain {
		return &format.CorruptError{File: r.seg.Path, LogOffset: r.end, Want: fmt.Sprintf("a last frame with checksum %08x, as the next segment says", next.Chain), Got: fmt.Sprintf("%08x", r.crc)}
	}
	return nil
}

// sameLog returns nil if the other node has a frame that is whole in the damaged file, and an error where there is none: frames of another log must not be taken.
func (r *restoring) sameLog() error {
	if r.whole == nil {
		return &format.CorruptError{File: r.seg.Path, LogOffset: r.seg.Start, Want: "a whole frame here, or the header of the next segment", Got: "neither"}
	}
	raw, err := r.fetch(r.at, r.at+uint64(len(r.whole)))
	if err == nil && !bytes.Equal(raw, r.whole) {
		err = &format.CorruptError{File: r.seg.Path, LogOffset: r.at, Want: "the frame that is here", Got: "another one of the other node"}
	}
	return err
}

// put appends to the file.
func (r *restoring) put(to vfs.File, b []byte) error {
	_, err := to.WriteAt(b, r.off)
	r.off += int64(len(b))
	return err
}

// headerOf reads the header of a segment that is whole.
func (r *restoring) headerOf(seg *logfile.Segment) (h format.SegmentHeader, err error) {
	h, fault, err := logfile.SegmentHeaderOf(r.list.files.maker.FS, seg)
	if fault != nil {
		err = errors.Join(err, &format.CorruptError{File: seg.Path, LogOffset: seg.Start, Want: fault.Want, Got: fault.Got})
	}
	return h, err
}

// newHeader makes the header of a segment that has lost its own. It counts as a replica's: the claims of its frames are not
// asked, as they may be about another disk.
func (r *restoring) newHeader() (h format.SegmentHeader, err error) {
	h = format.SegmentHeader{Start: r.seg.Start, Durable: r.seg.Start, History: format.History{Replica: true}}
	for _, t := range r.past.Terms {
		if t.Start <= r.seg.Start {
			h.History.ReplID, h.History.Epoch = t.ReplID, t.Epoch
		}
	}
	if r.prev != nil {
		v := verifier{list: r.list}
		if err := v.read(*r.prev, r.seg.Start); err != nil {
			return h, fmt.Errorf("the segment before is damaged too: %w", err)
		}
		h.Chain = v.crc
	}
	return h, nil
}

// keep copies the frames from a log offset up to the next bad place, and returns the log offset behind them.
func (r *restoring) keep(to, was vfs.File, from uint64) (pos uint64, err error) {
	r.own.Reset(was, r.seg, from, r.end)
	var f format.Frame
	for {
		fault, err := r.own.Next(&f)
		if fault != nil || err != nil { // io.EOF: the header alone was damaged. A failed read: the frame is fetched
			return r.own.Pos, nil
		}
		if f.End() > r.end || r.past.Admits(f.Start, f.Epoch) != nil {
			return f.Start, nil
		}
		if r.crc = f.CRC; r.whole == nil {
			r.whole, r.at = bytes.Clone(f.Raw), f.Start
		}
		if err := r.put(to, f.Raw); err != nil {
			return 0, err
		}
	}
}

// check verifies fetched frames, and returns the log offset behind them. Those that are whole in the damaged file too must be the
// same there: was, nil if there is no such file.
func (r *restoring) check(pos uint64, raw []byte, was vfs.File) (uint64, error) {
	if len(raw) == 0 {
		return pos, io.ErrUnexpectedEOF
	}
	var own []byte // from pos on, as far as it can be read
	if was != nil {
		own, _ = vfs.ReadAtMost(was, make([]byte, len(raw)), r.seg.Offset(pos)) // a failed read is damage too
	}
	var f, here format.Frame
	for len(raw) > 0 {
		if fault := format.DecodeFrame(raw, pos, &f); fault != nil {
			return pos, &format.CorruptError{File: r.seg.Path, LogOffset: pos, Want: fault.Want, Got: fault.Got}
		}
		if f.End() > r.end {
			return pos, &format.CorruptError{File: r.seg.Path, LogOffset: pos, Want: fmt.Sprintf("a frame up to %d", r.end), Got: fmt.Sprintf("one up to %d", f.End())}
		}
		if err := r.past.Admits(f.Start, f.Epoch); err != nil {
			return pos, err
		}
		if format.DecodeFrame(own, pos, &here) == nil && here.CRC != f.CRC {
			return pos, &format.CorruptError{File: r.seg.Path, LogOffset: pos, Want: fmt.Sprintf("a frame with checksum %08x, as it is here", here.CRC), Got: fmt.Sprintf("%08x", f.CRC)}
		}
		own = own[min(len(f.Raw), len(own)):]
		r.crc, pos, raw = f.CRC, f.End(), raw[len(f.Raw):]
	}
	return pos, nil
}
