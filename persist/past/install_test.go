package past

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// installed makes a data directory of the sample, and the frames and the manifest of a primary whose log overlaps with
// it.
func installed(t *testing.T) (disk *vfs.Sim, frames [][]byte, from uint64, m *format.Manifest, lineage format.Lineage) {
	return installedFrom(t, false)
}

// installedFrom is the same. The frames begin before those that the snapshot needs, if cursors of the feed do.
func installedFrom(t *testing.T, cursors bool) (disk *vfs.Sim, frames [][]byte, from uint64, m *format.Manifest, lineage format.Lineage) {
	t.Helper()
	_, primary, opts := persisttest.SampleDir(t)
	good, _, err := snapfile.ReadManifests(primary, persisttest.Dir)
	persisttest.Must(t, err)
	m = good[0]
	m.History = format.History{ReplID: format.ReplID{8}, Epoch: persisttest.History.Epoch}
	needs := m.Replay
	if cursors {
		needs = 0
	}
	_, err = logfile.Walk(primary, persisttest.Dir, needs, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		if f.End() > needs && f.Start < m.Offset {
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
	old := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &old))
	return disk, frames, from, m, format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{8}, Epoch: persisttest.History.Epoch, Start: 0}}}
}

// contentOf tells which of the two a directory holds, by opening it.
func contentOf(t *testing.T, disk vfs.FS) (string, error) {
	t.Helper()
	if err := FinishBegun(disk, persisttest.Dir); err != nil {
		return "", err
	}
	staged, err := listStaged(disk, persisttest.Dir)
	if err != nil || len(staged) > 0 {
		return "", fmt.Errorf("staged files are left: %v, %w", staged, err)
	}
	l, err := logfile.ReadLineage(disk, persisttest.Dir)
	if err != nil {
		return "", err
	}
	d, err := persist.OpenDir(disk, persisttest.Dir)
	if err != nil {
		return "", err
	}
	m := d.Manifests()
	records := 0
	log, rec, err := persist.OpenLog(persist.LogOptions{FS: disk, Dir: persisttest.Dir, Manual: true, FirstSegmentBytes: logfile.MinSegment, SegmentBytes: logfile.MinSegment, KnownDurable: d.KnownDurable()},
		m[0].Replay, func(uint64, *format.Record) error { records++; return nil })
	if err != nil {
		return "", errors.Join(err, d.Close())
	}
	if err := persisttest.VerifyDir(disk, persisttest.Dir); err != nil {
		return "", errors.Join(err, log.Close(), d.Close())
	}
	segs, err := logfile.Segments(disk, persisttest.Dir)
	if err != nil {
		return "", errors.Join(err, log.Close(), d.Close())
	}
	text := fmt.Sprintf("%s replica %t, %d manifests, log from %d to %d, %d records", l.Current().ReplID, l.Replica, len(m), segs[0].Start, rec.End, records)
	return text, errors.Join(log.Close(), d.Close())
}

// TestInstallCrash installs a primary's data and crashes at every operation, with and without a power failure: the
// directory holds what it held or the primary's, and which of the two is decided by one operation.
func TestInstallCrash(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, cursors := range []bool{false, true} {
		installCrash(t, cursors)
	}
}

func installCrash(t *testing.T, cursors bool) {
	base, frames, from, m, lineage := installedFrom(t, cursors)
	if cursors && m.Replay-from < 1000 {
		t.Fatalf("the log begins at %d, the snapshot needs it from %d on", from, m.Replay)
	}
	old, err := contentOf(t, base.Kill())
	persisttest.Must(t, err)
	install := func(fsys vfs.FS) error {
		in, err := BeginInstall(fsys, persisttest.Dir, from, lineage, m)
		if err != nil {
			return err
		}
		for _, raw := range frames {
			if err := in.Append(raw); err != nil {
				return errors.Join(err, in.Abort())
			}
		}
		if err := in.Stage(); err != nil {
			return errors.Join(err, in.Abort())
		}
		return in.Finish()
	}
	whole := base.Kill()
	before := whole.Ops()
	persisttest.Must(t, install(whole))
	ops := whole.Ops() - before
	next, err := contentOf(t, whole.Kill())
	persisttest.Must(t, err)
	if old == next || ops < 20 {
		t.Fatalf("%q and %q, %d operations", old, next, ops)
	}
	if leaks := whole.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
	seed := seed.Of(t)
	counts := map[string]int{}
	came := false
	for n := range ops {
		s := base.Kill()
		s.CrashAt(s.Ops() + n)
		if err := install(s); err == nil || !s.Crashed() {
			t.Fatalf("operation %d: %v", n, err)
		}
		killed := s.Kill()
		got, err := contentOf(t, killed)
		if err != nil || got != old && got != next || came && got != next {
			t.Fatalf("killed at operation %d: %q, %v", n, got, err)
		}
		came = got == next
		counts[got]++
		if again, err := contentOf(t, killed.Kill()); again != got || err != nil {
			t.Fatalf("killed at operation %d: %q, and again %q, %v", n, got, again, err)
		}
		for _, keep := range []int{0, 30, 70, 100} {
			disk := s.Crash(seed+uint64(n), keep)
			// Settling may crash too.
			for k := 0; ; k++ {
				twice := disk.Kill()
				twice.CrashAt(twice.Ops() + k)
				if err := FinishBegun(twice, persisttest.Dir); err != nil && !twice.Crashed() {
					t.Fatalf("power failure at operation %d, %d %% kept: %v", n, keep, err)
				}
				crashed := twice.Crashed()
				got, err := contentOf(t, twice.Crash(seed+uint64(k), keep))
				if err != nil || got != old && got != next {
					t.Fatalf("power failure at operation %d, %d %% kept, and at operation %d of settling: %q, %v", n, keep, k, got, err)
				}
				counts[got]++
				if !crashed || testing.Short() {
					break
				}
			}
		}
	}
	t.Logf("%d operations, outcomes %v", ops, counts)
	if counts[old] < 10 || counts[next] < 10 {
		t.Errorf("outcomes %v: want some of both", counts)
	}
}

// TestInstallRefuses: frames that do not follow, and a log that does not reach the snapshot.
func TestInstallRefuses(t *testing.T) {
	disk, frames, from, m, lineage := installed(t)
	old, err := contentOf(t, disk.Kill())
	persisttest.Must(t, err)
	in, err := BeginInstall(disk, persisttest.Dir, from, lineage, m)
	persisttest.Must(t, err)
	if err := in.Append(frames[1]); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a gap: %v", err)
	}
	bad := slices.Clone(frames[0])
	bad[len(bad)-1] ^= 1
	if err := in.Append(bad); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("damage: %v", err)
	}
	if err := in.Append(append(slices.Clone(frames[0]), 0)); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
	other := slices.Clone(frames[0])
	format.PutFrameHeader(other, false, from, 0, 0, persisttest.History.Epoch+1)
	if err := in.Append(other); !errors.Is(err, format.ErrTerm) {
		t.Errorf("a frame of a term that the history does not have: %v", err)
	}
	persisttest.Must(t, in.Append(frames[0]))
	if err := in.Stage(); !errors.Is(err, format.ErrGap) {
		t.Errorf("too short: %v", err)
	}
	persisttest.Must(t, in.Abort())
	if got, err := contentOf(t, disk); got != old || err != nil {
		t.Errorf("after giving up: %q, %v, want %q", got, err, old)
	}
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// TestInstallNeedsSnapshot: a log that is taken over needs a snapshot if the log of the primary does. The log before does not count.
func TestInstallNeedsSnapshot(t *testing.T) {
	for _, needs := range []bool{false, true} {
		disk, frames, from, m, lineage := installed(t)
		mine, err := logfile.ReadLineage(disk, persisttest.Dir)
		persisttest.Must(t, err)
		mine.NeedsSnapshot, lineage.NeedsSnapshot = !needs, needs
		persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &mine))
		in, err := BeginInstall(disk, persisttest.Dir, from, lineage, m)
		persisttest.Must(t, err)
		for _, raw := range frames {
			persisttest.Must(t, in.Append(raw))
		}
		persisttest.Must(t, errors.Join(in.Stage(), in.Finish()))
		if l, err := logfile.ReadLineage(disk, persisttest.Dir); err != nil || l.NeedsSnapshot != needs {
			t.Errorf("HISTORY says that the log needs a snapshot: %t, %v, want %t", l.NeedsSnapshot, err, needs)
		}
	}
}

// TestInstallNamesTerms takes over a log of two terms. Each segment names the term of its frames, so that the log has all changes also when
// the last term is taken back.
func TestInstallNamesTerms(t *testing.T) {
	var c persisttest.Clock
	primary := persisttest.NewFS(t)
	persisttest.Must(t, primary.MkdirAll(persisttest.Dir))
	lineage := format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{8}, Epoch: 1}}}
	opts := persisttest.SmallLog(primary, &c)
	opts.Create, opts.History = true, lineage.Current()
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	l.AppendSet(1, 1, 4242, 42)
	persisttest.Must(t, l.Sync())
	lineage.Add(format.Term{ReplID: format.ReplID{9}, Epoch: 2, Start: l.Position()})
	persisttest.Must(t, l.SetHistory(lineage.Current()))
	l.AppendSet(1, 1, 4243, 43)
	persisttest.Must(t, errors.Join(l.Sync(), l.Close()))

	disk := persisttest.NewFS(t)
	persisttest.Must(t, disk.MkdirAll(persisttest.Dir))
	for _, dir := range []string{format.LogDir(persisttest.Dir), format.ImageDir(persisttest.Dir), format.ColdDir(persisttest.Dir)} {
		persisttest.Must(t, disk.MkdirAll(dir))
	}
	in, err := BeginInstall(disk, persisttest.Dir, 0, lineage, nil)
	persisttest.Must(t, err)
	_, err = logfile.Walk(primary, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error { return in.Append(f.Raw) }})
	persisttest.Must(t, errors.Join(err, in.Stage(), in.Finish()))
	var ids []format.ReplID
	_, err = logfile.Walk(disk, persisttest.Dir, 0, 0, logfile.Visitor{Segment: func(h logfile.Header) error { ids = append(ids, h.History.ReplID); return nil }})
	persisttest.Must(t, err)
	if want := []format.ReplID{{8}, {9}}; !slices.Equal(ids, want) {
		t.Errorf("segments of terms %v, want %v", ids, want)
	}
	before := lineage.Cut(lineage.Terms[1].Start)
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &before))
	if all, err := logfile.HasAll(disk, persisttest.Dir); !all || err != nil {
		t.Errorf("the log has all changes: %t, %v", all, err)
	}
}
