package persist

import (
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// logRecords returns every record of a log behind an offset, as text with its position, and the positions of frame ends
// with their times.
func logRecords(t testing.TB, fsys vfs.FS, dir string, from uint64) (records []string, positions, ends []uint64, times []int64) {
	t.Helper()
	_, err := logfile.Walk(fsys, dir, from, 0, logfile.Visitor{
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			ends, times = append(ends, f.End()), append(times, f.TimeMS)
			return nil
		},
		Record: func(_ *format.Frame, pos uint64, rec *format.Record) error {
			positions = append(positions, pos)
			records = append(records, recordText(rec))
			return nil
		},
	})
	must(t, err)
	return records, positions, ends, times
}

// removeOrphans removes the files that Orphans returns, as the engine does at a start.
func removeOrphans(d *Dir) (removed []string, err error) {
	orphans, err := d.Orphans()
	for _, path := range orphans {
		if err := vfs.RemoveIfThere(d.fsys, path); err != nil {
			return removed, err
		}
		removed = append(removed, path)
	}
	return removed, err
}
