package past

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestCut cuts a log, with crashes in the middle: it opens again with the frames before, and the tail is saved. So too
// where the cut falls into what a restart wrote again, in a segment that claims to be durable up to its end.
func TestCut(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) { testCut(t, restarted) })
	}
}

func testCut(t *testing.T, restarted bool) {
	for at := uint64(1); at <= 6; at++ {
		for crash := 0; ; crash++ {
			sim := vfs.NewSim()
			opts := persist.LogOptions{FS: sim, Dir: "d", Create: true, Manual: true, History: format.History{ReplID: format.ReplID{7}, Epoch: 1}, FirstSegmentBytes: logfile.MinSegment, SegmentBytes: logfile.MinSegment}
			log, _, err := persist.OpenLog(opts, 0, func(uint64, *format.Record) error { return nil })
			persisttest.Must(t, err)
			var ends []uint64
			for i := range uint64(40) {
				pos := log.AppendSet(1, 2, i, i)
				persisttest.Must(t, log.Commit(pos))
				ends = append(ends, pos)
			}
			if !restarted {
				persisttest.Must(t, log.Sync())
			} else { // a process that died before it synced
				sim = sim.Kill()
				_ = log.Close()
				opts.FS = sim
				log, _, err = persist.OpenLog(opts, 0, func(uint64, *format.Record) error { return nil })
				persisttest.Must(t, err)
			}
			persisttest.Must(t, log.Close())
			lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{7}, Epoch: 1, Start: 0}}}
			persisttest.Must(t, logfile.WriteLineage(sim, "d", &lineage))
			persisttest.Must(t, sim.SyncDir("."))
			n := ends[at*6]
			sim.CrashAt(sim.Ops() + crash)
			tail, err := Cut(sim, "d", n, lineage)
			crashed := sim.Crashed()
			if !crashed {
				persisttest.Must(t, err)
				if tail.Sets != 40-at*6-1 || tail.From != n || tail.To != ends[39] {
					t.Fatalf("cut at %d: %+v", n, tail)
				}
			}
			left := []*vfs.Sim{sim.Kill()}
			for keep := 0; keep <= 100; keep += 50 { // power failures, too
				left = append(left, sim.Crash(uint64(crash), keep))
			}
			for i, after := range left {
				persisttest.Must(t, FinishBegun(after, "d"))
				if i := endsBeyond(t, after.Crash(0, 0)); !crashed && i >= 0 {
					t.Fatalf("cut at %d: behind a power failure, segment %d has frames of behind the cut again", n, i)
				}
				opts.FS, opts.History = after, format.History{}
				records := uint64(0)
				log, rec, err := persist.OpenLog(opts, 0, func(uint64, *format.Record) error { records++; return nil })
				if err != nil {
					t.Fatalf("cut at %d, crash %d at operation %d: %v", n, i, crash, err)
				}
				if rec.End != n && !(crashed && rec.End == ends[39]) || records != at*6+1 && records != 40 {
					t.Fatalf("cut at %d, crash %d at operation %d: the log ends at %d with %d records", n, i, crash, rec.End, records)
				}
				persisttest.Must(t, log.Close())
			}
			if !crashed {
				if crash < 10 {
					t.Errorf("a cut of %d operations only", crash)
				}
				break
			}
		}
	}
}

// endsBeyond returns the number of the first segment file that is longer than to the beginning of the next one; -1: none is.
func endsBeyond(t *testing.T, sim *vfs.Sim) int {
	t.Helper()
	segs, err := logfile.ListSegments(sim, "d")
	persisttest.Must(t, err)
	for i := 1; i < len(segs); i++ {
		info, err := sim.Stat(segs[i-1].Path)
		persisttest.Must(t, err)
		if info.Size() > segs[i-1].Offset(segs[i].Start) {
			return i - 1
		}
	}
	return -1
}

// TestCutAgain cuts a log at the same offset again and again, with other frames behind it each time, and crashes at
// every operation of the last cut: every tail that was cut is there, in a file of its own, and only once, whichever cut
// was broken off and done again.
func TestCutAgain(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	disk := persisttest.NewFS(t)
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}}
	opts := persist.LogOptions{FS: disk, Dir: persisttest.Dir, Create: true, Manual: true, History: persisttest.History, FirstSegmentBytes: logfile.MinSegment, SegmentBytes: logfile.MinSegment}
	log, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	at := log.AppendSet(1, 2, 3, 4)
	persisttest.Must(t, log.Commit(at))
	persisttest.Must(t, log.Close())
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	grow := func(value uint64) {
		t.Helper()
		opts.FS = disk
		log, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
		persisttest.Must(t, err)
		persisttest.Must(t, log.Commit(log.AppendSet(1, 2, 3, value)))
		persisttest.Must(t, log.Close())
	}
	// saved returns the values in the tails there are.
	saved := func(disk vfs.FS) (values []uint64) {
		t.Helper()
		tails, _, err := ListDiverged(disk, persisttest.Dir)
		persisttest.Must(t, err)
		for _, d := range tails {
			if d.Offset != at {
				t.Errorf("%s: offset %d, want %d", d.Path, d.Offset, at)
			}
			_, err := WalkDiverged(disk, d, logfile.Visitor{Record: func(_ *format.Frame, _ uint64, rec *format.Record) error {
				values = append(values, rec.Value)
				return nil
			}})
			persisttest.Must(t, err)
		}
		slices.Sort(values)
		return values
	}
	for value := uint64(1); value <= 3; value++ {
		grow(value)
		before := disk.Kill()
		tail, err := Cut(disk, persisttest.Dir, at, lineage)
		persisttest.Must(t, err)
		want := []uint64{1, 2, 3}[:value]
		if got := saved(disk); !slices.Equal(got, want) || tail.File == "" {
			t.Fatalf("saved %v in %q, want %v", got, tail.File, want)
		}
		for n := 0; ; n++ {
			s := before.Kill()
			s.CrashAt(s.Ops() + n)
			_, _ = Cut(s, persisttest.Dir, at, lineage)
			if !s.Crashed() {
				break
			}
			for _, left := range []*vfs.Sim{s.Kill(), s.Crash(uint64(n), 0), s.Crash(uint64(n), 50), s.Crash(uint64(n), 100)} {
				persisttest.Must(t, FinishBegun(left, persisttest.Dir))
				if _, err := Cut(left, persisttest.Dir, at, lineage); err != nil {
					t.Fatalf("cut %d, crash at operation %d: %v", value, n, err)
				}
				if got := saved(left); !slices.Equal(got, want) {
					t.Fatalf("cut %d, crash at operation %d, and again: saved %v, want %v", value, n, got, want)
				}
				if got := saved(left.Crash(uint64(n), 0)); !slices.Equal(got, want) {
					t.Fatalf("cut %d, crash at operation %d, again, and a power failure: saved %v, want %v", value, n, got, want)
				}
			}
		}
	}
}

// TestCutBelowLog asks for a cut below the oldest offset that is kept: nothing is saved, as the log alone is not all that
// would go, and nothing is changed.
func TestCutBelowLog(t *testing.T) {
	sim := vfs.NewSim()
	history := format.History{ReplID: format.ReplID{7}, Epoch: 1}
	log, _, err := persist.OpenLog(persist.LogOptions{FS: sim, Dir: "d", Create: true, Manual: true, History: history}, 1000, func(uint64, *format.Record) error { return nil })
	persisttest.Must(t, err)
	end := log.AppendSet(1, 2, 3, 4)
	persisttest.Must(t, log.Commit(end))
	persisttest.Must(t, log.Close())
	before, err := vfs.ReadFile(sim, filepath.Join(format.LogDir("d"), format.SegmentName(1000)), 1<<20)
	persisttest.Must(t, err)
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{7}, Epoch: 1, Start: 0}}}
	tail, err := Cut(sim, "d", 500, lineage)
	if !errors.Is(err, format.ErrGone) || tail != (CutTail{}) {
		t.Fatalf("got %+v, %v, want nothing saved and ErrGone", tail, err)
	}
	if tails, _, err := ListDiverged(sim, "d"); err != nil || len(tails) > 0 {
		t.Errorf("saved %v, %v", tails, err)
	}
	after, err := vfs.ReadFile(sim, filepath.Join(format.LogDir("d"), format.SegmentName(1000)), 1<<20)
	persisttest.Must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the log was changed")
	}
}

// TestCutAtSnapshot: a log that is cut where a snapshot ends keeps the snapshot, and loses the later one. Files of a copy that was
// begun before do not take part.
func TestCutAtSnapshot(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	if len(good) != 2 {
		t.Fatalf("%d snapshots, want 2", len(good))
	}
	older := good[1]
	persisttest.Must(t, vfs.WriteFileAtomic(disk, filepath.Join(persisttest.Dir, format.ManifestName(9)+format.StagedSuffix), []byte("of a copy")))
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	crashed := disk.Kill()
	_, err = Cut(disk, persisttest.Dir, older.Offset, lineage)
	persisttest.Must(t, err)
	left, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	if err != nil || len(left) != 1 || left[0].Generation != older.Generation {
		t.Errorf("%d snapshots are left, %v, want that of generation %d", len(left), err, older.Generation)
	}
	lineage.Cutting, lineage.CuttingAt = true, older.Offset
	persisttest.Must(t, logfile.WriteLineage(crashed, persisttest.Dir, &lineage))
	persisttest.Must(t, FinishBegun(crashed, persisttest.Dir))
	if staged, err := listStaged(crashed, persisttest.Dir); err != nil || len(staged) > 0 {
		t.Errorf("staged files are left: %v, %v", staged, err)
	}
}
