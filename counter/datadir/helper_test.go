package datadir

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// newSeed returns the seed of a random test and prints it if the test fails.
func newSeed(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: go test ./counter/datadir -run '^%s$' -seed %d", t.Name(), seed)
		}
	})
	return seed
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// clock is a clock that moves by hand.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.UnixMilli(1_700_000_000_000)} }

func (c *clock) Now() time.Time { return c.now }

const (
	testDir          = "/data"
	segmentHeaderLen = 64  // of a segment file
	minSegment       = 512 // bytes, the smallest segment of a log
	keepDiverged     = 2   // data sets that are saved
)

// newFS returns a simulated file system with a data directory.
func newFS(t testing.TB) *vfs.Sim {
	s := vfs.NewSim()
	must(t, s.MkdirAll(testDir))
	must(t, s.SyncDir("/"))
	return s
}

// testHistory is the history of test logs.
var testHistory = persist.History{ReplID: persist.ReplID{1, 2, 3, 19: 9}, Epoch: 7}

// smallLog are options that rotate after a few frames and start no goroutine.
func smallLog(fsys vfs.FS, c *clock) persist.LogOptions {
	return persist.LogOptions{
		FS: fsys, Dir: testDir, History: testHistory, Create: true, Manual: true, Now: c.Now,
		FirstSegmentBytes: 512, SegmentBytes: 1024,
	}
}

// discard is an apply function for tests that do not look at records.
func discard(uint64, *persist.Record) error { return nil }

// model is the list of records appended, as text by the offset behind them.
type model struct {
	pos  []uint64
	text []string
}

func recordText(r *persist.Record) string {
	switch r.Kind {
	case persist.KindSet:
		return fmt.Sprintf("set %d %d %d %d", r.Counter, r.Column, r.Mid, r.Value)
	case persist.KindSetItem:
		return fmt.Sprintf("item %d %d %v", r.Counter, r.Mid, r.Columns)
	case persist.KindDelete:
		return fmt.Sprintf("del %d %d", r.Counter, r.Mid)
	case persist.KindSchema:
		return fmt.Sprintf("schema %s", r.Text)
	}
	return r.Kind.String()
}

// appendSome appends one record of some kind.
func (m *model) appendSome(t testing.TB, l *persist.Log, i int) uint64 {
	t.Helper()
	r := persist.Record{Counter: 2, Mid: uint64(19089006004 + i*4000)}
	var pos uint64
	var err error
	switch i % 7 {
	case 3:
		r.Kind, r.Columns = persist.KindSetItem, []persist.ColumnValue{{Column: 1, Value: uint64(i)}, {Column: 2, Value: 1 << 40}}
		pos, err = l.AppendItem(r.Counter, r.Mid, r.Columns)
	case 4:
		r.Kind = persist.KindDelete
		pos = l.AppendDelete(r.Counter, r.Mid)
	case 5:
		r.Kind, r.Text = persist.KindSchema, fmt.Appendf(nil, "add counter c%d", i)
		pos, err = l.AppendSchema(string(r.Text))
	case 6:
		r.Kind = persist.KindFlush
		pos = l.AppendFlush()
	default:
		r.Kind, r.Counter, r.Column, r.Value = persist.KindSet, 1, uint16(i%300), uint64(i)
		pos = l.AppendSet(r.Counter, r.Column, r.Mid, r.Value)
	}
	must(t, err)
	m.pos, m.text = append(m.pos, pos), append(m.text, recordText(&r))
	return pos
}

// sampleDir makes a directory with a log of several segments and two snapshots, each with one image of each of two
// blocks. The image payload is the offset it stands at, as text.
func sampleDir(t testing.TB) (m model, disk *vfs.Sim, opts persist.LogOptions) {
	disk = newFS(t)
	d, err := persist.OpenDir(disk, testDir)
	must(t, err)
	opts = smallLog(disk, newClock())
	l, _, err := persist.OpenLog(opts, 0, discard)
	must(t, err)
	for i := range 120 {
		must(t, l.Commit(m.appendSome(t, l, i)))
		if i%10 == 9 {
			l.Tick()
		}
		if i == 60 || i == 90 {
			must(t, l.Sync())
			offset := l.Durable()
			manifest := &persist.Manifest{History: testHistory, Offset: offset, Replay: m.pos[i-20], NextCounter: 2, NextBlock: 3,
				Counters: []persist.CounterFiles{{ID: 1, Name: "weibo"}}}
			for b := range uint64(2) {
				h := persist.ImageHeader{Counter: 1, Block: b + 1, Lo: 100 * b, Hi: 100*b + 100, Offset: offset, Items: 1}
				if b == 0 {
					h.Offset = manifest.Replay
				}
				info, err := persist.WriteImage(disk, testDir, h, fmt.Append(nil, h.Offset))
				must(t, err)
				manifest.Counters[0].Blocks = append(manifest.Counters[0].Blocks, persist.BlockFile{Tier: persist.TierHot, Block: h.Block, Lo: h.Lo, Hi: h.Hi,
					Offset: h.Offset, Items: 1, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name})
			}
			must(t, d.WriteManifest(manifest))
		}
	}
	must(t, l.Close())
	must(t, d.Close())
	return m, disk, opts
}

// sampleLog makes a log of three segments, of several records a frame.
func sampleLog(t testing.TB) *vfs.Sim {
	disk := newFS(t)
	l, _, err := persist.OpenLog(smallLog(disk, newClock()), 0, discard)
	must(t, err)
	var m model
	for i := range 60 {
		pos := m.appendSome(t, l, i)
		if i%3 == 2 {
			must(t, l.Commit(pos))
		}
		if i == 10 || i == 50 {
			l.Tick()
		}
	}
	must(t, l.Commit(l.Position()))
	must(t, l.Close())
	return disk
}

// logRecords returns every record of a log behind an offset, as text with its position, and the positions of frame ends
// with their times.
func logRecords(t testing.TB, fsys vfs.FS, dir string, from uint64) (records []string, positions, ends []uint64, times []int64) {
	t.Helper()
	_, err := persist.WalkLog(fsys, dir, from, 0, persist.LogVisitor{
		Frame: func(_ persist.SegmentInfo, f *persist.Frame) error {
			ends, times = append(ends, f.End()), append(times, f.TimeMS)
			return nil
		},
		Record: func(_ *persist.Frame, pos uint64, rec *persist.Record) error {
			positions = append(positions, pos)
			records = append(records, recordText(rec))
			return nil
		},
	})
	must(t, err)
	return records, positions, ends, times
}

// damage flips a bit of a byte.
func damage(t testing.TB, fsys vfs.FS, path string, off int64) {
	t.Helper()
	f, err := fsys.OpenRW(path)
	must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, off)
	must(t, err)
	must(t, errors.Join(f.Sync(), f.Close())) // no crash takes it back
}

// truncateTo cuts a file.
func truncateTo(fsys vfs.FS, path string, size int64) error {
	f, err := fsys.OpenRW(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// allZero reports whether b holds nothing but zeros.
func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
