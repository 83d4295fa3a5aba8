package persist

import (
	"fmt"
	"time"
)

// Stats are figures of a log since it was opened, for INFO and metrics.
type Stats struct {
	Writes         uint64        // group commits
	WrittenBytes   uint64        // frames, headers included
	Syncs          uint64        // syncs of the log, failed ones included
	SyncErrors     uint64        // failed ones
	Rewrites       uint64        // attempts to write unsynced bytes to a new segment
	FailedRewrites uint64        // those that failed
	LastSync       time.Duration // of the last sync
	MaxSync        time.Duration // of the longest

	// Now, not since opening.
	Position, Written, Durable uint64        // log offsets
	First                      uint64        // the oldest offset kept
	Segments                   int           // segment files
	SegmentBytes               int64         // log bytes in them
	UnsyncedAge                time.Duration // upper bound of the age of the oldest byte not durable; 0: none
	Trouble                    error         // why the disk's state stops writes; nil in service
}

// Stats returns the figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Position, s.Written, s.Durable = l.tail.position(), l.written.Load(), l.durable.Load()
	s.First, s.Segments = l.segs[0].start, len(l.segs)
	s.SegmentBytes = int64(s.Written - s.First)
	if !l.since.IsZero() {
		s.UnsyncedAge = l.opts.Now().Sub(l.since)
	}
	s.Trouble = l.trouble
	return s
}

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	Path       string
	Start, End uint64 // log offsets; the active segment's End is Written
}

// Segments returns the segments kept, oldest first. They are consecutive.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]SegmentInfo, len(l.segs))
	for i, s := range l.segs {
		end := max(l.written.Load(), s.start)
		if i+1 < len(l.segs) {
			end = l.segs[i+1].start
		}
		infos[i] = SegmentInfo{s.path, s.start, end}
	}
	return infos
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
		drop := len(l.segs) > 1 && l.segs[1].start <= offset && l.segs[1].start < l.durable.Load() && !l.closed && !l.healing
		first := l.segs[0]
		drop = drop && l.refusals[reasonGone] == nil
		if drop {
			l.segs = l.segs[1:]
			l.layout.Add(1)
		}
		l.mu.Unlock()
		if !drop {
			return nil
		}
		err := removeIfThere(l.opts.FS, first.path)
		if err == nil {
			err = l.opts.FS.SyncDir(LogDir(l.opts.Dir))
		}
		if err != nil {
			l.mu.Lock()
			l.segs = append([]segment{first}, l.segs...)
			l.layout.Add(1)
			l.mu.Unlock()
			return fmt.Errorf("drop log segment: %w", err)
		}
	}
}
