package persist

import (
	"time"

	"github.com/counterd/counterd/persist/format"
)

// Stats are metrics of a log since it was opened, for INFO and metrics.
type Stats struct {
	Writes         uint64        // group commits
	WrittenBytes   uint64        // frames, headers included
	Syncs          uint64        // syncs of the log, failed ones included
	SyncErrors     uint64        // failed ones
	Rewrites       uint64        // attempts to write unsynced bytes to a new segment
	FailedRewrites uint64        // those that failed
	LastSync       time.Duration // of the last sync
	MaxSync        time.Duration // of the longest
	SyncTimes      Histogram     // of all syncs, in microseconds
	WriteSizes     Histogram     // of all group commits, in bytes

	// Now, not since opening.
	Position, Written, Durable uint64        // log offsets
	First                      uint64        // the oldest offset kept
	Segments                   int           // segment files
	SegmentBytes               int64         // log bytes in them
	DiskBytes                  int64         // what their files take, without what is preallocated
	Packed                     int           // of the segment files are compressed
	PackedBytes, PackedDisk    int64         // log bytes in those, and what their files take
	UnsyncedAge                time.Duration // upper bound of the age of the oldest byte not durable; 0: none
	Trouble                    error         // why the disk's state stops writes; nil in service
	Stalls                     bool          // a call of the disk has not ended for longer than usual, or hangs
}

// Stats returns the metrics of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.committer.stats
	s.Position, s.Written, s.Durable = l.tail.position(), l.Written(), l.Durable()
	s.First, s.Segments = l.files.segs[0].Start, len(l.files.segs)
	s.SegmentBytes = int64(s.Written - s.First)
	sum := l.files.packedSum
	s.Packed, s.PackedBytes, s.PackedDisk = sum.n, sum.log, sum.disk
	s.DiskBytes = s.SegmentBytes - sum.log + sum.disk + int64(s.Segments-sum.n)*format.SegmentHeaderLen
	if !l.judge.since.IsZero() {
		s.UnsyncedAge = l.opts.Now().Sub(l.judge.since)
	}
	s.Trouble = l.committer.healer.trouble
	if how := l.progress.failing.Load(); how == diskStalls || how == diskHangs {
		s.Stalls = true
	}
	return s
}
