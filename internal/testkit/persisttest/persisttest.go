// Package persisttest has sample data directories for tests of packages above persist: logs of a few segments, snapshots,
// and functions that read them as text. Only tests import it.
package persisttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// The base of all tests of files, under the same names.
const Dir = filetest.Dir

type Clock = filetest.Clock

var Must, NewFS, NewClock, Golden = filetest.Must, filetest.NewFS, filetest.NewClock, filetest.Golden

// Update tells tests to write golden files anew.
var Update = filetest.Update

// History is the history of test logs.
var History = format.History{ReplID: format.ReplID{1, 2, 3, 19: 9}, Epoch: 7}

// SmallLog are options that rotate after a few frames and start no goroutine.
func SmallLog(fsys vfs.FS, c *Clock) persist.LogOptions {
	return persist.LogOptions{
		FS: fsys, Dir: Dir, History: History, Create: true, Manual: true, Now: c.Now,
		FirstSegmentBytes: 512, SegmentBytes: 1024,
	}
}

// Discard is an apply function for tests that do not look at records.
func Discard(uint64, *format.Record) error { return nil }

// Model is the list of records appended, as text by the offset behind them.
type Model struct {
	Pos  []uint64
	Text []string
}

func RecordText(r *format.Record) string {
	switch r.Kind {
	case format.KindSet:
		return fmt.Sprintf("set %d %d %d %d", r.Counter, r.Column, r.Mid, r.Value)
	case format.KindSetItem:
		return fmt.Sprintf("item %d %d %v", r.Counter, r.Mid, r.Columns)
	case format.KindDelete:
		return fmt.Sprintf("del %d %d", r.Counter, r.Mid)
	case format.KindSchema:
		return fmt.Sprintf("schema %s", r.Text)
	}
	return r.Kind.String()
}

// AppendSome appends one record of some kind.
func (m *Model) AppendSome(t testing.TB, l *persist.Log, i int) uint64 {
	t.Helper()
	r := format.Record{Counter: 2, Mid: uint64(19089006004 + i*4000)}
	var pos uint64
	var err error
	switch i % 7 {
	case 3:
		r.Kind, r.Columns = format.KindSetItem, []format.ColumnValue{{Column: 1, Value: uint64(i)}, {Column: 2, Value: 1 << 40}}
		pos, err = l.AppendItem(r.Counter, r.Mid, r.Columns)
	case 4:
		r.Kind = format.KindDelete
		pos = l.AppendDelete(r.Counter, r.Mid)
	case 5:
		r.Kind, r.Text = format.KindSchema, fmt.Appendf(nil, "add counter c%d", i)
		pos, err = l.AppendSchema(string(r.Text))
	case 6:
		r.Kind = format.KindFlush
		pos = l.AppendFlush()
	default:
		r.Kind, r.Counter, r.Column, r.Value = format.KindSet, 1, uint16(i%300), uint64(i)
		pos = l.AppendSet(r.Counter, r.Column, r.Mid, r.Value)
	}
	Must(t, err)
	m.Pos, m.Text = append(m.Pos, pos), append(m.Text, RecordText(&r))
	return pos
}

// SampleDir makes a directory with a log of several segments and two snapshots, each with one image of each of two
// blocks. The image payload is the offset it stands at, as text.
func SampleDir(t testing.TB) (m Model, disk *vfs.Sim, opts persist.LogOptions) {
	disk = NewFS(t)
	d, err := persist.OpenDir(disk, Dir)
	Must(t, err)
	opts = SmallLog(disk, NewClock())
	l, _, err := persist.OpenLog(opts, 0, Discard)
	Must(t, err)
	for i := range 120 {
		Must(t, l.Commit(m.AppendSome(t, l, i)))
		if i%10 == 9 {
			l.Tick()
		}
		if i == 60 || i == 90 {
			Must(t, l.Sync())
			offset := l.Durable()
			manifest := &format.Manifest{History: History, Offset: offset, Replay: m.Pos[i-20], NextCounter: 2, NextBlock: 3,
				Counters: []format.CounterFiles{{ID: 1, Name: "weibo"}}}
			for b := range uint64(2) {
				h := format.ImageHeader{Counter: 1, Block: b + 1, Lo: 100 * b, Hi: 100*b + 100, Offset: offset, Items: 1}
				if b == 0 {
					h.Offset = manifest.Replay
				}
				info, err := snapfile.WriteImage(disk, Dir, h, fmt.Append(nil, h.Offset))
				Must(t, err)
				manifest.Counters[0].Blocks = append(manifest.Counters[0].Blocks, format.BlockFile{Tier: format.TierHot, Block: h.Block, Lo: h.Lo, Hi: h.Hi,
					Offset: h.Offset, Items: 1, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name})
			}
			Must(t, d.WriteManifest(manifest))
		}
	}
	Must(t, l.Close())
	Must(t, d.Close())
	return m, disk, opts
}

// SampleLog makes a log of three segments, of several records a frame.
func SampleLog(t testing.TB) *vfs.Sim {
	disk := NewFS(t)
	l, _, err := persist.OpenLog(SmallLog(disk, NewClock()), 0, Discard)
	Must(t, err)
	var m Model
	for i := range 60 {
		pos := m.AppendSome(t, l, i)
		if i%3 == 2 {
			Must(t, l.Commit(pos))
		}
		if i == 10 || i == 50 {
			l.Tick()
		}
	}
	Must(t, l.Commit(l.Position()))
	Must(t, l.Close())
	return disk
}

// LogRecords returns every record of a log behind an offset, as text with its position, and the positions of frame ends
// with their times.
func LogRecords(t testing.TB, fsys vfs.FS, dir string, from uint64) (records []string, positions, ends []uint64, times []int64) {
	t.Helper()
	_, err := logfile.Walk(fsys, dir, from, 0, logfile.Visitor{
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			ends, times = append(ends, f.End()), append(times, f.TimeMS)
			return nil
		},
		Record: func(_ *format.Frame, pos uint64, rec *format.Record) error {
			positions = append(positions, pos)
			records = append(records, RecordText(rec))
			return nil
		},
	})
	Must(t, err)
	return records, positions, ends, times
}

// Damage flips a bit of a byte.
func Damage(t testing.TB, fsys vfs.FS, path string, off int64) {
	t.Helper()
	f, err := fsys.OpenRW(path)
	Must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	Must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, off)
	Must(t, err)
	Must(t, errors.Join(f.Sync(), f.Close())) // no crash takes it back
}

// VerifyDir verifies every manifest, image and frame of a directory.
func VerifyDir(fsys vfs.FS, dir string) error {
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

// IsDamage reports whether an error says that bytes are damaged, and not that a newer program wrote them.
func IsDamage(err error) bool {
	return errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat)
}
