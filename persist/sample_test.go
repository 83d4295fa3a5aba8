package persist

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// sampleDir makes a directory with a log of several segments and two snapshots, each with one image of each of two
// blocks. The image payload is the offset it stands at, as text.
func sampleDir(t testing.TB) (m model, disk *vfs.Sim, opts LogOptions) {
	disk = newFS(t)
	d, err := OpenDir(disk, testDir)
	must(t, err)
	opts = smallLog(disk, newClock())
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	for i := range 120 {
		must(t, l.Commit(m.appendSome(t, l, i)))
		if i%10 == 9 {
			l.Tick()
		}
		if i == 60 || i == 90 {
			must(t, l.Sync())
			offset := l.Durable()
			manifest := &format.Manifest{History: testHistory, Offset: offset, Replay: m.pos[i-20], NextCounter: 2, NextBlock: 3,
				Counters: []format.CounterFiles{{ID: 1, Name: "weibo"}}}
			for b := range uint64(2) {
				h := format.ImageHeader{Counter: 1, Block: b + 1, Lo: 100 * b, Hi: 100*b + 100, Offset: offset, Items: 1}
				if b == 0 {
					h.Offset = manifest.Replay
				}
				info, err := snapfile.WriteImage(disk, testDir, h, fmt.Append(nil, h.Offset))
				must(t, err)
				manifest.Counters[0].Blocks = append(manifest.Counters[0].Blocks, format.BlockFile{Tier: format.TierHot, Block: h.Block, Lo: h.Lo, Hi: h.Hi,
					Offset: h.Offset, Items: 1, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name})
			}
			must(t, d.WriteManifest(manifest))
		}
	}
	must(t, l.Close())
	must(t, d.Close())
	return m, disk, opts
}

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

// verifyDir verifies every manifest, image and frame of a directory.
func verifyDir(fsys vfs.FS, dir string) error {
	good, bad, err := snapfile.ReadManifests(fsys, dir)
	if err = errors.Join(append(bad, err)...); err != nil {
		return err
	}
	known := uint64(0)
	for _, m := range good {
		known = max(known, m.Offset)
		if err := m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
			return snapfile.CheckBlock(fsys, dir, c, b, nil)
		}); err != nil {
			return err
		}
	}
	_, err = logfile.Walk(fsys, dir, 0, known, logfile.Visitor{Record: func(*format.Frame, uint64, *format.Record) error { return nil }})
	return err
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
