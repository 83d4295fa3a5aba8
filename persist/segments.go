package persist

import (
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Segments returns the segments kept, oldest first. They are consecutive.
func (l *Log) Segments() []logfile.SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]logfile.SegmentInfo, len(l.files.segs))
	for i, s := range l.files.segs {
		end := max(l.written.Load(), s.Start)
		if i+1 < len(l.files.segs) {
			end = l.files.segs[i+1].Start
		}
		infos[i] = logfile.SegmentInfo{Path: s.Path, Start: s.Start, End: end, Bytes: l.files.bytesOf(i, l.written.Load()), Packed: l.files.packed[s.Start] > 0}
	}
	return infos
}

// KeepFrom returns the log offset from which on the segment files take a number of bytes on disk, or a little more, at
// the start of a segment; 0 if all of them take less.
func (l *Log) KeepFrom(bytes uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, written := uint64(0), l.written.Load()
	for i := len(l.files.segs) - 1; i >= 0; i-- {
		if sum += uint64(l.files.bytesOf(i, written)); sum >= bytes {
			return l.files.segs[i].Start
		}
	}
	return 0
}

// DropBefore removes the segments that hold only bytes below an offset, oldest first, each durably before the next:
// a crash never leaves a gap. The last segment and bytes that are not durable always stay. A reader inside a dropped
// segment gets ErrGone, at the latest when it has read it.
func (l *Log) DropBefore(offset uint64) error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	for {
		l.mu.Lock()
		// The next segment must have a durable byte, so that its header is durable: it alone tells the history then.
		segs := l.files.segs
		drop := len(segs) > 1 && segs[1].Start <= offset && segs[1].Start < l.durable.Load() && !l.calls.closed && !l.calls.healing()
		first := segs[0]
		drop = drop && l.refusals[reasonGone] == nil
		if drop {
			l.files.segs = segs[1:]
			l.files.sumPacked()
			l.layout.Add(1)
		}
		l.mu.Unlock()
		if !drop {
			return nil
		}
		err := vfs.RemoveIfThere(l.opts.FS, first.Path)
		if err == nil {
			err = l.opts.FS.SyncDir(format.LogDir(l.opts.Dir))
		}
		if err != nil {
			l.mu.Lock()
			l.files.segs = append([]logfile.Segment{first}, l.files.segs...)
			l.files.sumPacked()
			l.layout.Add(1)
			l.mu.Unlock()
			return fmt.Errorf("drop log segment: %w", err)
		}
		l.mu.Lock()
		delete(l.files.packed, first.Start)
		l.mu.Unlock()
	}
}
