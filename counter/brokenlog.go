package counter

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/persist/format"
)

// BrokenLog is a damaged segment of a store's log, by its log offsets. It is not appended to, and no start needs it once a
// snapshot was made behind it.
type BrokenLog = durable.BadLog

// BrokenLogs are the damaged segments of the log, as far as the scrubber has found. RestoreLog ends the damage.
func BrokenLogs(s *Store) []BrokenLog {
	if s.scrubber == nil {
		return nil
	}
	return s.scrubber.Broken()
}

// RestoreLog makes the file of a damaged segment again. fetch returns whole frames that begin at a log offset, and none behind
// end, of a log that agrees with this one up to there. Frames are checked, and the next segment must name the last one. After an error nothing was changed.
func RestoreLog(s *Store, b BrokenLog, fetch func(from, end uint64) ([]byte, error)) error {
	past := s.repl.Lineage()
	return s.scrubber.Restore(b, &past, fetch)
}

// RenewSnapshots makes a snapshot, and has another made behind it: then no snapshot names a file that was replaced.
func RenewSnapshots(s *Store) error {
	if s.snapshots == nil {
		return ErrInMemory
	}
	return s.snapshots.Renew()
}

// NoteBrokenLog has the log verified at once, as a reader of it has met err. Only damage does that is not known yet: where no other node can give the frames, a
// client that follows the feed meets the same place each time it asks.
func NoteBrokenLog(s *Store, err error) {
	if s.scrubber == nil || !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if c, ok := errors.AsType[*format.CorruptError](err); ok && s.scrubber.Knows(c.LogOffset) {
		return
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		if start, segment := format.ParseSegmentName(filepath.Base(p.Path)); segment && s.scrubber.Knows(start) {
			return
		}
	}
	s.scrubber.Suspect()
}
