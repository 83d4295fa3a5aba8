package datadir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRepairHeader damages the header of each segment. A repair writes it again: the log has all its records, and the history that it
// had, so nothing is said to be lost, and no copy of another node is needed. It is the same behind a crash anywhere, with HISTORY damaged too, and where
// the last segment has no frame yet.
func TestRepairHeader(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	_, clean, _ := persisttest.SampleDir(t)
	lineage := format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	persisttest.Must(t, logfile.WriteLineage(clean, persisttest.Dir, &lineage))
	clean = clean.Crash(1, 0)
	want, _, _, _ := persisttest.LogRecords(t, clean, persisttest.Dir, 0)
	walked, err := logfile.Walk(clean, persisttest.Dir, 0, 0, logfile.Visitor{})
	persisttest.Must(t, err)
	empty := clean.Kill()
	persisttest.Must(t, logfile.NewSegment(empty, persisttest.Dir, logfile.Header{SegmentInfo: logfile.SegmentInfo{Start: walked.End}, History: walked.History, Durable: walked.End, Chain: walked.Chain}, nil))
	empty = empty.Crash(1, 0)
	rng, tried := seed.Of(t), 0
	for _, c := range []struct {
		name string
		disk *vfs.Sim
		also func(disk *vfs.Sim)
	}{
		{"alone", clean, func(*vfs.Sim) {}},
		{"an empty last segment", empty, func(*vfs.Sim) {}},
		{"and HISTORY", clean, func(disk *vfs.Sim) {
			persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir), 30)
			persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir)+vfs.CopySuffix, 30)
		}},
	} {
		segs, err := logfile.Segments(c.disk, persisttest.Dir)
		persisttest.Must(t, err)
		for i, seg := range segs {
			for _, at := range []int64{0, 9, 20, 40, 50, 57, 61} {
				disk := c.disk.Kill()
				persisttest.Damage(t, disk, seg.Path, at)
				c.also(disk)
				disk = disk.Crash(0, 100)
				r, err := Check(disk, persisttest.Dir, CheckOptions{})
				persisttest.Must(t, err)
				if r.Whole() {
					continue
				}
				tried++
				for crashed, n := at == 9, 0; crashed; n++ {
					torn := disk.Kill()
					torn.CrashAt(n)
					err := Repair(torn, persisttest.Dir, RepairOptions{})
					if crashed = torn.Crashed(); crashed {
						torn = torn.Crash(rng+uint64(n), 50)
						err = Repair(torn, persisttest.Dir, RepairOptions{})
					}
					persisttest.Must(t, err)
					what := fmt.Sprintf("%s: segment %d, byte %d, crash %d", c.name, i, at, n)
					sameLog(t, torn, want, walked.History, what)
				}
				var said []string
				persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{
					Say:   func(s string) { said = append(said, s) },
					Lacks: func() error { t.Error("the log counts as one that lacks something"); return nil },
				}))
				if text := strings.Join(said, "\n"); !strings.Contains(text, "the header is written again") || strings.Contains(text, "LOST") || len(findBroken(t, disk)) == 0 {
					t.Errorf("%s: segment %d, byte %d:\n%s", c.name, i, at, text)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d headers were repaired", tried)
	}
}

// sameLog fails unless a directory has all records of a log, in its history.
func sameLog(t *testing.T, disk *vfs.Sim, want []string, history format.History, what string) {
	t.Helper()
	if r, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || !r.Whole() {
		t.Fatalf("%s: %v %+v", what, err, r)
	}
	if got, _, _, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0); !slices.Equal(got, want) {
		t.Fatalf("%s: %d records of %d", what, len(got), len(want))
	}
	walked, err := logfile.Walk(disk, persisttest.Dir, 0, 0, logfile.Visitor{})
	persisttest.Must(t, err)
	l, err := logfile.ReadLineage(disk, persisttest.Dir)
	persisttest.Must(t, err)
	if walked.History != history || len(l.Terms) > 0 && l.Current() != history { // a crash may leave a new HISTORY without terms
		t.Fatalf("%s: history %+v, HISTORY %+v, want %+v", what, walked.History, l.Current(), history)
	}
}

// TestRepairHeaderAndMore: damage behind the header of a segment costs the frames behind that damage, and no more.
func TestRepairHeaderAndMore(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	lineage := format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	segs, err := logfile.Segments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	seg := segs[len(segs)-1]
	var frames []format.FrameHeader
	_, err = logfile.Walk(disk, persisttest.Dir, seg.Start, 0, logfile.Visitor{Frame: func(at logfile.SegmentInfo, f *format.Frame) error {
		if at.Start == seg.Start {
			frames = append(frames, f.FrameHeader)
		}
		return nil
	}})
	persisttest.Must(t, err)
	if len(frames) < 3 {
		t.Fatalf("%d frames in the last segment", len(frames))
	}
	persisttest.Damage(t, disk, seg.Path, 20)
	persisttest.Damage(t, disk, seg.Path, seg.Segment().Offset(frames[1].Start)+20)
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
	walked, err := logfile.Walk(disk, persisttest.Dir, seg.Start, 0, logfile.Visitor{})
	if err != nil || walked.End != frames[1].Start || walked.History.ReplID == persisttest.History.ReplID {
		t.Errorf("the log ends at %d, want %d, history %+v, %v", walked.End, frames[1].Start, walked.History, err)
	}
}
