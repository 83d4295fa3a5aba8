package persist

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// divergedDir makes the sample with a HISTORY, a tail of its log and an archive of all of it saved beside.
func divergedDir(t *testing.T) (disk *vfs.Sim, lineage Lineage) {
	t.Helper()
	_, disk, opts := sampleDir(t)
	lineage = Lineage{Replica: true, Terms: []Term{{ReplID{5}, 6, 0}, {testHistory.ReplID, testHistory.Epoch, 300}}}
	must(t, WriteLineage(disk, testDir, &lineage))
	_, _, ends, _ := logRecords(t, disk, testDir, 0)
	tail, _, err := saveTail(disk, testDir, ends[len(ends)-20], testHistory)
	must(t, err)
	if tail.Frames != 19 {
		t.Fatalf("saved %+v", tail)
	}
	d, err := OpenDir(disk, testDir)
	must(t, err)
	m := d.Manifests()[0]
	l, _, err := OpenLog(opts, m.Replay, discard)
	must(t, err)
	for n := 1; n <= keepDiverged+2; n++ {
		w, err := NewArchiveWriter(testDir, l, m, lineage)
		must(t, err)
		path, removed, err := SaveDiverged(t.Context(), disk, testDir, w)
		must(t, errors.Join(err, w.Close()))
		if path != filepath.Join(testDir, fmt.Sprintf("diverged-%d.archive", n)) || (len(removed) > 0) != (n > keepDiverged) {
			t.Fatalf("saved %s, removed %v", path, removed)
		}
	}
	must(t, errors.Join(l.Close(), d.Close()))
	return disk, lineage
}

func TestCheckDiverged(t *testing.T) {
	disk, lineage := divergedDir(t)
	r, err := Check(disk, testDir, CheckOptions{})
	must(t, err)
	if !r.OK() || r.Diverged != 1+keepDiverged || r.DivergedBytes == 0 || r.Lineage.Current() != lineage.Current() {
		t.Errorf("report %+v", r)
	}
	for _, p := range r.Problems {
		if !errors.Is(p.Err, ErrDiverged) {
			t.Errorf("%s: %v", p.Path, p.Err)
		}
	}
	must(t, Repair(disk, testDir, RepairOptions{Say: func(s string) { t.Error("repair of what is whole:", s) }}))
}

// TestRepairDiverged damages HISTORY, a saved tail and a saved archive, at each byte and length: it is found, nothing is thrown away, and
// what is whole is kept.
func TestRepairDiverged(t *testing.T) {
	clean, lineage := divergedDir(t)
	tails, archives, err := ListDiverged(clean, testDir)
	must(t, err)
	history := filepath.Join(testDir, historyName)
	for _, path := range []string{history, tails[0].Path, archives[1].Path} {
		whole, err := vfs.ReadFile(clean, path, 1<<20)
		must(t, err)
		step := max(1, len(whole)/40)
		for i := 0; i < len(whole); i += step {
			for _, cut := range []bool{false, true} {
				disk := clean.Kill()
				what := fmt.Sprintf("%s byte %d cut %t", path, i, cut)
				if cut {
					must(t, truncateTo(disk, path, int64(i)))
				} else {
					damage(t, disk, path, int64(i))
				}
				disk = disk.Crash(0, 100) // the damage is on the disk
				r, err := Check(disk, testDir, CheckOptions{})
				must(t, err)
				if r.OK() {
					t.Fatalf("%s: Check found nothing", what)
				}
				var said []string
				if err := Repair(disk, testDir, RepairOptions{Say: func(s string) { said = append(said, s) }}); err != nil {
					t.Fatalf("%s: repair: %v\n%s", what, err, strings.Join(said, "\n"))
				}
				kept := findBroken(t, disk)
				if len(kept) != 1 {
					t.Fatalf("%s: kept %v\n%s", what, kept, strings.Join(said, "\n"))
				}
				r, err = Check(disk, testDir, CheckOptions{})
				must(t, err)
				if !r.OK() || r.Log.Records != 120 {
					t.Fatalf("%s: after repair: %+v\n%s", what, r, strings.Join(said, "\n"))
				}
				switch path {
				case history: // the log tells whose it is; who knew the older term needs a full copy
					if r.Lineage.Replica != r.Log.History.Replica || r.Lineage.Current().ReplID != lineage.Current().ReplID || len(r.Lineage.Terms) != 1 {
						t.Fatalf("%s: history %+v", what, r.Lineage)
					}
				case tails[0].Path:
					if now, err := vfs.ReadFile(disk, path, 1<<20); err == nil && (len(now) >= len(whole) || !bytes.Equal(now[segmentHeaderLen:], whole[segmentHeaderLen:len(now)])) {
						t.Fatalf("%s: %d bytes are left of %d", what, len(now), len(whole))
					} else if gone := isNotExist(err); gone != (i < segmentHeaderLen || now == nil) {
						t.Fatalf("%s: %v\n%s", what, err, strings.Join(said, "\n"))
					}
				}
				checkDurable(t, disk, what)
				must(t, Repair(disk, testDir, RepairOptions{Say: func(s string) { t.Fatalf("%s: second repair: %s", what, s) }}))
				if leaks := disk.Leaks(); len(leaks) > 0 {
					t.Fatal("open files:", leaks)
				}
			}
		}
	}
}

// TestCheckBegun: what a crash broke off is a note, and checked, repaired and restored as the next start leaves it.
func TestCheckBegun(t *testing.T) {
	base, frames, from, m, lineage := installed(t)
	seen := map[string]int{}
	for n := 0; ; n++ {
		s := base.Kill()
		s.CrashAt(s.Ops() + n)
		in, err := BeginInstall(s, testDir, from, lineage, m)
		for _, raw := range frames {
			if err == nil {
				err = in.Append(raw)
			}
		}
		if err == nil {
			err = in.Stage()
		}
		if err == nil {
			err = in.Finish()
		}
		disk := s.Kill()
		before := disk.Ops()
		r, cerr := Check(disk, testDir, CheckOptions{})
		must(t, cerr)
		if !r.OK() || disk.Ops() != before {
			t.Fatalf("operation %d: %+v", n, r)
		}
		for _, p := range r.Problems {
			if errors.Is(p.Err, ErrBegun) {
				seen["begun"]++
			}
		}
		out := newFS(t)
		if _, err := Restore(disk, testDir, out, "/data/out", Target{Offset: m.Offset}, RestoreOptions{}); err != nil {
			t.Fatalf("operation %d: restore: %v", n, err)
		}
		must(t, Repair(disk, testDir, RepairOptions{}))
		if _, err := contentOf(t, disk); err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		if err == nil {
			break
		}
	}
	if seen["begun"] < 10 {
		t.Errorf("%v", seen)
	}
}

// TestRestoreHistory: what is restored says how far its log is the one it was made of.
func TestRestoreHistory(t *testing.T) {
	_, disk, _ := sampleLog(t) // of several records a frame
	lineage := Lineage{Replica: true, Terms: []Term{{ReplID{5}, 6, 0}, {testHistory.ReplID, testHistory.Epoch, 300}}}
	must(t, WriteLineage(disk, testDir, &lineage))
	records, positions, ends, _ := logRecords(t, disk, testDir, 0)
	log := func(fsys vfs.FS, dir string, from uint64) (frames []byte) {
		_, err := WalkLog(fsys, dir, from, 0, LogVisitor{Frame: func(_ SegmentInfo, f *Frame) error {
			if f.Start >= from {
				frames = append(frames, f.Raw...)
			}
			return nil
		}})
		must(t, err)
		return frames
	}
	end := ends[len(ends)-1]
	source := log(disk, testDir, 0)
	inside := 0
	for i := range records {
		at := positions[i]
		out := newFS(t)
		done, err := Restore(disk, testDir, out, "/data/out", Target{Offset: at}, RestoreOptions{})
		must(t, err)
		l, err := ReadLineage(out, "/data/out")
		must(t, err)
		common, ok := l.Common(done.Offset, &lineage, end)
		if !ok && at < ends[0] {
			continue // no whole frame is the same
		}
		if !ok || l.Replica || l.Current().ReplID != done.History || common > at {
			t.Fatalf("offset %d: common up to %d, %t, history %+v", at, common, ok, l)
		}
		if common < at {
			inside++
		}
		walked, err := WalkLog(out, "/data/out", done.Replay, 0, LogVisitor{})
		must(t, err)
		if copied := log(out, "/data/out", walked.First); !bytes.Equal(copied[:common-walked.First], source[walked.First:common]) {
			t.Fatalf("offset %d: the logs are said to agree up to %d, and do not", at, common)
		}
	}
	if inside == 0 {
		t.Error("no offset was inside a frame")
	}
}
