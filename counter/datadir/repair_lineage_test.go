package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// divergedDir makes the sample with a HISTORY, a tail of its log and an archive of all of it saved beside.
func divergedDir(t *testing.T) (disk *vfs.Sim, lineage format.Lineage) {
	t.Helper()
	_, disk, opts := persisttest.SampleDir(t)
	lineage = format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{5}, Epoch: 6}, {ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 300}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	_, _, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	cut := disk.Kill() // a tail of its log is cut from a copy
	tail, err := past.Cut(cut, persisttest.Dir, ends[len(ends)-20], format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}})
	persisttest.Must(t, err)
	if tail.Frames != 19 {
		t.Fatalf("saved %+v", tail)
	}
	saved, err := vfs.ReadFile(cut, tail.File, 1<<20)
	persisttest.Must(t, err)
	persisttest.Must(t, vfs.WriteFileAtomic(disk, tail.File, saved))
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	m := d.Manifests()[0]
	l, _, err := persist.OpenLog(opts, m.Replay, persisttest.Discard)
	persisttest.Must(t, err)
	for n := 1; n <= 2+2; n++ {
		w, err := archive.NewWriter(disk, persisttest.Dir, l, m, lineage)
		persisttest.Must(t, err)
		path, removed, err := past.SaveDiverged(t.Context(), disk, persisttest.Dir, w)
		persisttest.Must(t, errors.Join(err, w.Close()))
		if path != filepath.Join(persisttest.Dir, fmt.Sprintf("diverged-%d.archive", n)) || (len(removed) > 0) != (n > 2) {
			t.Fatalf("saved %s, removed %v", path, removed)
		}
	}
	persisttest.Must(t, errors.Join(l.Close(), d.Close()))
	return disk, lineage
}

func TestCheckDiverged(t *testing.T) {
	disk, lineage := divergedDir(t)
	r, err := Check(disk, persisttest.Dir, CheckOptions{})
	persisttest.Must(t, err)
	if !r.OK() || r.Diverged != 1+2 || r.DivergedBytes == 0 || r.Lineage.Current() != lineage.Current() {
		t.Errorf("report %+v", r)
	}
	for _, p := range r.Problems {
		if !errors.Is(p.Err, ErrDiverged) {
			t.Errorf("%s: %v", p.Path, p.Err)
		}
	}
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { t.Error("repair of what is whole:", s) }}))
}

// TestRepairDiverged damages HISTORY with its copy, a saved tail and a saved archive, at each byte and length: it is found, nothing
// is thrown away, and what is whole is kept.
func TestRepairDiverged(t *testing.T) {
	clean, lineage := divergedDir(t)
	tails, archives, err := past.ListDiverged(clean, persisttest.Dir)
	persisttest.Must(t, err)
	history := format.LineagePath(persisttest.Dir)
	for _, path := range []string{history, tails[0].Path, archives[1].Path} {
		whole, err := vfs.ReadFile(clean, path, 1<<20)
		persisttest.Must(t, err)
		step := max(1, len(whole)/40)
		for i := 0; i < len(whole); i += step {
			for _, cut := range []bool{false, true} {
				disk := clean.Kill()
				what := fmt.Sprintf("%s byte %d cut %t", path, i, cut)
				bad := []string{path}
				if path == history {
					bad = append(bad, path+vfs.CopySuffix)
				}
				for _, path := range bad {
					if cut {
						persisttest.Must(t, vfs.TruncateTo(disk, path, int64(i)))
					} else {
						persisttest.Damage(t, disk, path, int64(i))
					}
				}
				disk = disk.Crash(0, 100) // the persisttest.Damage is on the disk
				r, err := Check(disk, persisttest.Dir, CheckOptions{})
				persisttest.Must(t, err)
				if r.OK() {
					t.Fatalf("%s: Check found nothing", what)
				}
				var said []string
				if err := Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { said = append(said, s) }}); err != nil {
					t.Fatalf("%s: repair: %v\n%s", what, err, strings.Join(said, "\n"))
				}
				kept := findBroken(t, disk)
				if len(kept) != len(bad) {
					t.Fatalf("%s: kept %v\n%s", what, kept, strings.Join(said, "\n"))
				}
				r, err = Check(disk, persisttest.Dir, CheckOptions{})
				persisttest.Must(t, err)
				if !r.OK() || r.Log.Records != 120 {
					t.Fatalf("%s: after repair: %+v\n%s", what, r, strings.Join(said, "\n"))
				}
				switch path {
				case history: // the log tells whose it is; who knew the older term needs a full copy
					if r.Lineage.Replica != r.Log.History.Replica || r.Lineage.Current().ReplID != lineage.Current().ReplID || len(r.Lineage.Terms) != 1 {
						t.Fatalf("%s: history %+v", what, r.Lineage)
					}
				case tails[0].Path:
					if now, err := vfs.ReadFile(disk, path, 1<<20); err == nil && (len(now) >= len(whole) || !bytes.Equal(now[format.SegmentHeaderLen:], whole[format.SegmentHeaderLen:len(now)])) {
						t.Fatalf("%s: %d bytes are left of %d", what, len(now), len(whole))
					} else if gone := vfs.IsNotExist(err); gone != (i < format.SegmentHeaderLen || now == nil) {
						t.Fatalf("%s: %v\n%s", what, err, strings.Join(said, "\n"))
					}
				}
				checkDurable(t, disk, what)
				persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { t.Fatalf("%s: second repair: %s", what, s) }}))
				if leaks := disk.Leaks(); len(leaks) > 0 {
					t.Fatal("open files:", leaks)
				}
			}
		}
	}
}

// TestRepairHistoryCopy: of a damaged HISTORY the copy counts, and of a damaged copy HISTORY. Check finds both and a start needs no repair;
// Repair writes both files again.
func TestRepairHistoryCopy(t *testing.T) {
	clean, lineage := divergedDir(t)
	for _, suffix := range []string{"", vfs.CopySuffix} {
		disk, path := clean.Kill(), format.LineagePath(persisttest.Dir)+suffix
		persisttest.Damage(t, disk, path, 30)
		r, err := Check(disk, persisttest.Dir, CheckOptions{})
		persisttest.Must(t, err)
		found := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Path == path && !p.Fatal })
		if !found || !bytes.Equal(r.Lineage.AppendText(nil), lineage.AppendText(nil)) {
			t.Errorf("%s: history %+v, problems %v", path, r.Lineage, r.Problems)
		}
		persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(string) {}}))
		if text, err := vfs.ReadFile(disk, path, 1<<20); err != nil || !bytes.Equal(text, lineage.AppendText(nil)) {
			t.Errorf("%s: repaired to %q, %v", path, text, err)
		}
	}
}

// installed makes a data directory of the sample, and the frames and the manifest of a primary whose log overlaps with
// it.
func installed(t *testing.T) (disk *vfs.Sim, frames [][]byte, from uint64, m *format.Manifest, lineage format.Lineage) {
	t.Helper()
	_, primary, opts := persisttest.SampleDir(t)
	good, _, err := snapfile.ReadManifests(primary, persisttest.Dir)
	persisttest.Must(t, err)
	m = good[0]
	m.History = format.History{ReplID: format.ReplID{8}, Epoch: persisttest.History.Epoch}
	_, err = logfile.Walk(primary, persisttest.Dir, m.Replay, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		if f.End() > m.Replay && (f.Start < m.Offset) {
			if len(frames) == 0 {
				from = f.Start
			}
			frames = append(frames, slices.Clone(f.Raw))
		}
		return nil
	}})
	persisttest.Must(t, err)
	_, disk, opts = persisttest.SampleDir(t) // with images of the same names, as if they had been copied before
	opts.Create = false
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	l.AppendSet(1, 1, 4242, 42) // what only this node has
	persisttest.Must(t, l.Sync())
	persisttest.Must(t, l.Close())
	old := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &old))
	return disk, frames, from, m, format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{8}, Epoch: persisttest.History.Epoch}}}
}

// opens starts from a directory as a server does, and checks it.
func opens(t *testing.T, disk vfs.FS) error {
	t.Helper()
	if err := past.FinishBegun(disk, persisttest.Dir); err != nil {
		return err
	}
	d, err := persist.OpenDir(disk, persisttest.Dir)
	if err != nil {
		return err
	}
	replay := uint64(0)
	if m := d.Manifests(); len(m) > 0 {
		replay = m[0].Replay
	}
	log, _, err := persist.OpenLog(persist.LogOptions{FS: disk, Dir: persisttest.Dir, Manual: true, FirstSegmentBytes: logfile.MinSegment, SegmentBytes: logfile.MinSegment, KnownDurable: d.KnownDurable()},
		replay, persisttest.Discard)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	report, err := Check(disk, persisttest.Dir, CheckOptions{})
	if err == nil && !report.OK() {
		err = fmt.Errorf("check: %v", report.Problems)
	}
	return errors.Join(err, log.Close(), d.Close())
}

// TestCheckBegun: what a crash broke off is a note, and checked, repaired and restored as the next start leaves it.
func TestCheckBegun(t *testing.T) {
	base, frames, from, m, lineage := installed(t)
	seen := map[string]int{}
	for n := 0; ; n++ {
		s := base.Kill()
		s.CrashAt(s.Ops() + n)
		in, err := past.BeginInstall(s, persisttest.Dir, from, lineage, m)
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
		r, cerr := Check(disk, persisttest.Dir, CheckOptions{})
		persisttest.Must(t, cerr)
		if !r.OK() || disk.Ops() != before {
			t.Fatalf("operation %d: %+v", n, r)
		}
		for _, p := range r.Problems {
			if errors.Is(p.Err, ErrBegun) {
				seen["begun"]++
			}
		}
		out := persisttest.NewFS(t)
		if _, err := Restore(disk, persisttest.Dir, out, "/data/out", Target{Offset: m.Offset}, RestoreOptions{}); err != nil {
			t.Fatalf("operation %d: restore: %v", n, err)
		}
		persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
		if err := opens(t, disk); err != nil {
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
	disk := persisttest.SampleLog(t)
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{5}, Epoch: 6}, {ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 300}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	records, positions, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	log := func(fsys vfs.FS, dir string, from uint64) (frames []byte) {
		_, err := logfile.Walk(fsys, dir, from, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			if f.Start >= from {
				frames = append(frames, f.Raw...)
			}
			return nil
		}})
		persisttest.Must(t, err)
		return frames
	}
	end := ends[len(ends)-1]
	source := log(disk, persisttest.Dir, 0)
	inside := 0
	for i := range records {
		at := positions[i]
		out := persisttest.NewFS(t)
		done, err := Restore(disk, persisttest.Dir, out, "/data/out", Target{Offset: at}, RestoreOptions{})
		persisttest.Must(t, err)
		l, err := logfile.ReadLineage(out, "/data/out")
		persisttest.Must(t, err)
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
		walked, err := logfile.Walk(out, "/data/out", done.Replay, 0, logfile.Visitor{})
		persisttest.Must(t, err)
		if copied := log(out, "/data/out", walked.First); !bytes.Equal(copied[:common-walked.First], source[walked.First:common]) {
			t.Fatalf("offset %d: the logs are said to agree up to %d, and do not", at, common)
		}
	}
	if inside == 0 {
		t.Error("no offset was inside a frame")
	}
}

// crashedRepairs yields the disks that a repair leaves where its power fails at each operation in turn, and at last the one of a whole repair.
func crashedRepairs(t *testing.T, disk *vfs.Sim) iter.Seq2[int, *vfs.Sim] {
	t.Helper()
	return func(yield func(int, *vfs.Sim) bool) {
		for n, crashed := 0, true; crashed; n++ {
			fsys := disk.Kill()
			fsys.CrashAt(n)
			err := Repair(fsys, persisttest.Dir, RepairOptions{})
			if crashed = fsys.Crashed(); !crashed && err != nil {
				t.Fatal(err)
			}
			if !yield(n, fsys.Crash(uint64(n), 50)) {
				return
			}
		}
	}
}

// followedDir is a sample directory, and its model, whose log goes on as a replica's.
func followedDir(t *testing.T) (persisttest.Model, *vfs.Sim) {
	t.Helper()
	m, disk, opts := persisttest.SampleDir(t)
	opts.History.Replica = true
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	for i := range 30 {
		persisttest.Must(t, l.Commit(m.AppendSome(t, l, 120+i)))
	}
	persisttest.Must(t, l.Close())
	return m, disk
}

// TestRepairKeepsRole: HISTORY of a replica is damaged with its copy, and the log too, behind the snapshot or in the time when the node was a primary. The
// repair, also one after a crash anywhere, leaves a replica's log.
func TestRepairKeepsRole(t *testing.T) {
	for _, where := range []string{"behind the snapshot", "as a primary"} {
		m, disk := followedDir(t)
		good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
		persisttest.Must(t, err)
		bad := good[0].Offset - 1
		if where == "behind the snapshot" {
			bad = m.Pos[len(m.Pos)-1] - 1
		}
		segs, err := logfile.ListSegments(disk, persisttest.Dir)
		persisttest.Must(t, err)
		seg := &segs[logfile.Below(segs, bad+1)-1]
		persisttest.Damage(t, disk, seg.Path, seg.Offset(bad))
		past := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
		persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &past))
		persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir), 30)
		persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir)+vfs.CopySuffix, 30)
		disk = disk.Crash(0, 100) // the damage is on the disk
		for n, fsys := range crashedRepairs(t, disk) {
			persisttest.Must(t, Repair(fsys, persisttest.Dir, RepairOptions{}))
			if l, err := logfile.ReadLineage(fsys, persisttest.Dir); err != nil || !l.Replica {
				t.Fatalf("damage %s, crash at %d: HISTORY %+v, %v", where, n, l, err)
			}
		}
	}
}

// TestRepairKeepsPrimary: a node was a replica, and leads since. Its log needs a snapshot, none can be used, and the rest of the log is from before it
// led. HISTORY is whole, so the repair leaves a primary, also if it crashes anywhere.
func TestRepairKeepsPrimary(t *testing.T) {
	_, disk := followedDir(t)
	past := format.Lineage{NeedsSnapshot: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &past))
	good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	for _, m := range good {
		persisttest.Damage(t, disk, filepath.Join(persisttest.Dir, format.ManifestName(m.Generation)), 30)
	}
	disk = disk.Crash(0, 100) // the damage is on the disk
	for n, fsys := range crashedRepairs(t, disk) {
		persisttest.Must(t, Repair(fsys, persisttest.Dir, RepairOptions{}))
		if l, err := logfile.ReadLineage(fsys, persisttest.Dir); err != nil || l.Replica {
			t.Fatalf("crash at %d: HISTORY %+v, %v", n, l, err)
		}
	}
}

// TestRepairHistoryWithoutSnapshots: HISTORY and its copy are damaged beside a log with all changes. If no file of a snapshot is here, nothing is lost, and
// the log keeps its id, also if the repair crashes anywhere. A manifest that was set aside, or an image, tells that the log may need a snapshot.
func TestRepairHistoryWithoutSnapshots(t *testing.T) {
	for _, had := range []string{"", "a manifest set aside", "an image"} {
		_, disk, _ := persisttest.SampleDir(t)
		was := format.Lineage{Replica: persisttest.History.Replica, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
		persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &was))
		good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
		persisttest.Must(t, err)
		orphans, err := snapfile.FindOrphans(disk, persisttest.Dir, nil)
		persisttest.Must(t, err)
		for i, path := range orphans {
			if had != "an image" || i > 0 {
				persisttest.Must(t, disk.Remove(path))
			}
		}
		for _, m := range good {
			name := filepath.Join(persisttest.Dir, format.ManifestName(m.Generation))
			if had == "a manifest set aside" {
				persisttest.Must(t, past.SetAside(disk, name, nil))
			} else {
				persisttest.Must(t, disk.Remove(name))
			}
		}
		for _, path := range []string{format.LineagePath(persisttest.Dir), format.LineagePath(persisttest.Dir) + vfs.CopySuffix} {
			persisttest.Damage(t, disk, path, 30)
		}
		for _, dir := range []string{persisttest.Dir, format.ImageDir(persisttest.Dir), format.ColdDir(persisttest.Dir)} {
			persisttest.Must(t, disk.SyncDir(dir))
		}
		disk = disk.Crash(0, 100)
		for n, crashed := 0, true; crashed; n++ {
			fsys, lacks := disk.Kill(), 0
			var said []string
			opts := RepairOptions{Say: func(line string) { said = append(said, line) }, Lacks: func() error { lacks++; return nil }}
			fsys.CrashAt(n)
			err := Repair(fsys, persisttest.Dir, opts)
			if crashed = fsys.Crashed(); !crashed && err != nil {
				t.Fatal(err)
			}
			fsys = fsys.Crash(uint64(n), 50)
			persisttest.Must(t, Repair(fsys, persisttest.Dir, opts))
			lost := strings.Contains(strings.Join(said, "\n"), "LOST: ")
			l, err := logfile.ReadLineage(fsys, persisttest.Dir)
			persisttest.Must(t, err)
			kept := len(l.Terms) == 0 || l.Current().ReplID == was.Current().ReplID // without terms, the log tells the id
			if lost != (had != "") || lost != (lacks > 0) || lost == kept || l.NeedsSnapshot || l.Replica != was.Replica {
				t.Fatalf("%s: crash at %d: %d calls of Lacks, HISTORY %+v; repair says:\n%s", had, n, lacks, l, strings.Join(said, "\n"))
			}
			if !crashed && had == "" && !strings.Contains(said[len(said)-2], "may lack changes") {
				t.Fatalf("repair says:\n%s", strings.Join(said, "\n"))
			}
			if err := opens(t, fsys); err != nil {
				t.Fatalf("%s: crash at %d: %v", had, n, err)
			}
		}
	}
}
