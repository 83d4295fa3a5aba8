package persist

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// SegmentList is the list of the segments that a log keeps, for its owner: the owner lists them, drops the oldest and has
// them verified, and Packer replaces their files. It knows the segment files, which roles are held and why changes are
// refused, and reaches nothing else of the log.
//
// Log.mu guards the list itself. doc.go has the lock order.
type SegmentList struct {
	files     *segmentFiles
	admission *admission
	calls     *diskCalls

	drop sync.Mutex // one DropBefore at a time, and no file of Pack gets its name meanwhile
}

// List returns the segments kept, oldest first. They are consecutive.
func (s *SegmentList) List() []logfile.SegmentInfo {
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	infos := make([]logfile.SegmentInfo, len(s.files.segs))
	for i, seg := range s.files.segs {
		end := max(s.files.progress.written.Load(), seg.Start)
		if i+1 < len(s.files.segs) {
			end = s.files.segs[i+1].Start
		}
		infos[i] = logfile.SegmentInfo{Path: seg.Path, Start: seg.Start, End: end, Bytes: s.files.bytesOf(i, s.files.progress.written.Load()), Packed: s.files.packed[seg.Start] > 0}
	}
	return infos
}

// KeepFrom returns the log offset from which on the segment files take a number of bytes on disk, or a little more, at
// the start of a segment; 0 if all of them take less.
func (s *SegmentList) KeepFrom(bytes uint64) uint64 {
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	sum, written := uint64(0), s.files.progress.written.Load()
	for i := len(s.files.segs) - 1; i >= 0; i-- {
		if sum += uint64(s.files.bytesOf(i, written)); sum >= bytes {
			return s.files.segs[i].Start
		}
	}
	return 0
}

// DropBefore removes the segments that hold only bytes below an offset, oldest first, each durably before the next:
// a crash never leaves a gap. The last segment and bytes that are not durable always stay. A reader inside a dropped
// segment gets ErrGone, at the latest when it has read it.
func (s *SegmentList) DropBefore(offset uint64) error {
	s.drop.Lock()
	defer s.drop.Unlock()
	for {
		s.files.lock.Lock()
		// The next segment must have a durable byte, so that its header is durable: it alone tells the history then.
		segs := s.files.segs
		drop := len(segs) > 1 && segs[1].Start <= offset && segs[1].Start < s.files.progress.durable.Load() && !s.calls.closed && !s.calls.healing()
		first := segs[0]
		drop = drop && s.admission.refusals[reasonGone] == nil
		if drop {
			s.files.segs = segs[1:]
			s.files.sumPacked()
			s.files.progress.layout.Add(1)
		}
		s.files.lock.Unlock()
		if !drop {
			return nil
		}
		err := vfs.RemoveIfThere(s.files.maker.FS, first.Path)
		if err == nil {
			err = s.files.maker.FS.SyncDir(format.LogDir(s.files.maker.Dir))
		}
		if err != nil {
			s.files.lock.Lock()
			s.files.segs = append([]logfile.Segment{first}, s.files.segs...)
			s.files.sumPacked()
			s.files.progress.layout.Add(1)
			s.files.lock.Unlock()
			return fmt.Errorf("drop log segment: %w", err)
		}
		s.files.lock.Lock()
		delete(s.files.packed, first.Start)
		s.files.lock.Unlock()
	}
}

// keeps tells whether a segment is still in the list. DropBefore takes it off the list before it removes the file.
func (s *SegmentList) keeps(seg *logfile.Segment) bool {
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	return slices.Contains(s.files.segs, *seg)
}

// toPack returns the oldest segment that may be packed, and where it ends.
func (s *SegmentList) toPack(before uint64) (seg logfile.Segment, end uint64, ok bool) {
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	segs := s.files.segs
	for i := 0; i+1 < len(segs); i++ {
		end := segs[i+1].Start
		// As in DropBefore: only behind a durable byte of the next segment its header is durable, and this one's end.
		if end > before || end >= s.files.progress.durable.Load() || s.admission.closing() || s.calls.healing() {
			break
		}
		if _, known := s.files.packed[segs[i].Start]; !known {
			return segs[i], end, true
		}
	}
	return logfile.Segment{}, 0, false
}

// notePacked records the size of the packed file of a segment; -1 means that the segment stays as it is.
func (s *SegmentList) notePacked(seg logfile.Segment, size int64) {
	s.files.lock.Lock()
	defer s.files.lock.Unlock()
	if slices.Contains(s.files.segs, seg) {
		s.files.packed[seg.Start] = size
		s.files.sumPacked()
	}
}

var errDropped = errors.New("the segment was dropped meanwhile")

// replace gives a packed file the name of its segment, if the segment is still in the list.
func (s *SegmentList) replace(seg *logfile.Segment, end uint64, temp string) error {
	s.drop.Lock()
	defer s.drop.Unlock()
	if err := s.files.maker.Guarded(); err != nil {
		return err
	}
	s.files.lock.Lock()
	i := slices.Index(s.files.segs, *seg)
	there := i >= 0 && i+1 < len(s.files.segs) && s.files.segs[i+1].Start == end
	gone, closing := s.admission.refusals[reasonGone], s.admission.closing()
	s.files.lock.Unlock()
	switch {
	case closing:
		return format.ErrClosed
	case gone != nil:
		return gone
	case !there:
		return errDropped
	}
	return s.files.maker.FS.Rename(temp, seg.Path)
}
