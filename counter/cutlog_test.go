// Scenario: an image is damaged, and the log lacks changes: a repair cut it below its snapshot, or it is damaged.

package counter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLostImageCutLog: a log that begins at 0, and from which a repair took changes that the images have, does not have all changes. A
// start does not take it in place of the images: only the range of a damaged image cannot be read.
func TestLostImageCutLog(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir := t.TempDir()
	fs := &hookFS{FS: vfs.OS()}
	opts := Options{FS: fs, Manual: true, BlockItems: lostItems, RetainBytes: 1 << 40}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 5*lostItems, 3)
	must(t, s.data.Log.Sync()) // the end of a frame
	last := fmt.Sprintf("%d.cntcm", slices.Max(mids))
	var cut uint64
	fs.hook = func(string) { // while the images are written, the newest post is changed
		fs.hook = nil
		cut = s.data.Log.Position()
		must(t, s.Set(last, 4321))
		must(t, s.data.Log.Sync())
	}
	must(t, s.Snapshot())
	fs.hook = nil
	m := s.data.Dir.Manifests()[0]
	if m.Replay > cut || m.Offset <= cut {
		t.Fatalf("the snapshot stands at %d to %d, want the change at %d between", m.Replay, m.Offset, cut)
	}
	must(t, s.Close())
	segs, err := logfile.Segments(vfs.OS(), dir)
	must(t, err)
	flip(t, segs[0].Path, segs[0].Segment().Offset(m.Offset)-1)
	must(t, datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS())}))
	open := func() (err error) {
		s, err = Open(dir, opts)
		return err
	}
	must(t, open())
	if v, _, err := s.Get(last); v != 4321 || err != nil {
		t.Fatalf("after the repair: %d, %v", v, err)
	}
	must(t, s.Snapshot())
	must(t, s.Snapshot())
	m = s.data.Dir.Manifests()[0]
	must(t, s.Close())
	var bad format.BlockFile
	for _, b := range m.Counters[0].Blocks {
		if sealedImage(&b) {
			bad = b
		}
	}
	flip(t, bad.Path(dir), 200)
	must(t, open())
	if v, _, err := s.Get(last); v != 4321 || err != nil {
		t.Errorf("after the damage: %d, %v, want 4321", v, err)
	}
	if _, _, err := s.Get(fmt.Sprintf("%d.cntcm", bad.Lo)); !errors.Is(err, ErrCold) {
		t.Errorf("a post of the damaged image: %v, want ErrCold", err)
	}
	if _, err := os.Stat(bad.Path(dir)); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
}

// TestLostImageDamagedLog: a log that begins at 0 and is damaged before the snapshots does not take the place of an image that both of them
// share. Only the range of the image cannot be read.
func TestLostImageDamagedLog(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir := t.TempDir()
	opts := Options{Manual: true, BlockItems: lostItems, SegmentBytes: 16 << 10, RetainBytes: 1 << 40}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 5*lostItems, 3)
	for v := range uint64(2) {
		must(t, s.Set("1.cntrn", v))
		must(t, s.Snapshot())
	}
	var bad format.BlockFile
	manifests := s.data.Dir.Manifests()
	for _, b := range manifests[1].Counters[0].Blocks {
		if sealedImage(&b) {
			bad = b
		}
	}
	want := map[uint64]uint64{}
	for _, mid := range mids {
		v, _, err := s.Get(fmt.Sprintf("%d.cntcm", mid))
		must(t, err)
		want[mid] = v
	}
	must(t, s.Close())
	flip(t, bad.Path(dir), 200)
	segs := segmentsOf(t, dir)
	if segs[0].Start > 0 || segs[1].End == 0 || segs[1].End > manifests[1].Replay {
		t.Fatalf("segments %v, the snapshots need the log from %d on", segs, manifests[1].Replay)
	}
	flip(t, segs[1].Path, format.SegmentHeaderLen+40)
	s, err := Open(dir, opts)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	for mid, v := range want {
		got, _, err := s.Get(fmt.Sprintf("%d.cntcm", mid))
		if lost := bad.Lo <= mid && mid < bad.Hi; lost && !errors.Is(err, ErrCold) || !lost && (got != v || err != nil) {
			t.Fatalf("post %d: %d, %v, want %d", mid, got, err, v)
		}
	}
}

// TestCutLogCutAgain: a replica whose log a repair cut is to be cut back before its snapshots. The log alone would lack a change, so the cut changes
// nothing and asks for a full copy.
func TestCutLogCutAgain(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir, want := repairDir(t, true, false)
	manifests, _, err := snapfile.ReadManifests(vfs.OS(), dir)
	must(t, err)
	lineage, err := logfile.ReadLineage(vfs.OS(), dir)
	must(t, err)
	at := lineage.Terms[1].Start
	if at >= manifests[1].Offset {
		t.Fatalf("no frame ends before the snapshots, which begin at %d", manifests[1].Offset)
	}
	if _, err := past.Cut(vfs.OS(), dir, at, lineage.Cut(at)); !errors.Is(err, format.ErrGone) {
		t.Errorf("a cut at %d: %v, want ErrGone", at, err)
	}
	s, err := Open(dir, repairOptions)
	must(t, err)
	if old, unreadable := compareValues(t, s, want); old+unreadable > 0 {
		t.Errorf("%d posts have old values, and %d answer errors", old, unreadable)
	}
	must(t, s.Close())
}

// TestCutLogRestore: a restore from a log that a repair cut says that changes may be missing, and one from a whole log does not. The log of what was
// restored from a snapshot needs that as the log that it was copied from; restored from the log alone, it has all that there is.
func TestCutLogRestore(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	for _, cut := range []bool{false, true} {
		dir, _ := repairDir(t, cut, false)
		manifests, _, err := snapfile.ReadManifests(vfs.OS(), dir)
		must(t, err)
		told := false
		out := filepath.Join(t.TempDir(), "restored")
		result, err := datadir.Restore(vfs.OS(), dir, vfs.OS(), out, datadir.Target{Offset: manifests[1].Offset - 1}, datadir.RestoreOptions{
			Cold: ColdVerifier(vfs.OS()), Say: func(line string) { told = told || strings.Contains(line, "may lack changes") },
		})
		must(t, err)
		if result.Snapshot != 0 || told != cut {
			t.Errorf("cut %t: from snapshot %d, told of missing changes: %t", cut, result.Snapshot, told)
		}
		if needsSnapshot(t, out) {
			t.Errorf("cut %t: restored from the log alone, and needs a snapshot", cut)
		}
		out = filepath.Join(t.TempDir(), "restored")
		_, err = datadir.Restore(vfs.OS(), dir, vfs.OS(), out, datadir.Target{Offset: manifests[0].Offset}, datadir.RestoreOptions{Cold: ColdVerifier(vfs.OS())})
		must(t, err)
		if needsSnapshot(t, out) != cut {
			t.Errorf("cut %t: restored from a snapshot, and needs one: %t", cut, !cut)
		}
	}
}

func needsSnapshot(t *testing.T, dir string) bool {
	t.Helper()
	l, err := logfile.ReadLineage(vfs.OS(), dir)
	must(t, err)
	return l.NeedsSnapshot
}

// TestCutLogAlone: a repair takes the log alone, as no snapshot can be used, although an earlier one cut that. Then the state is that of the log, and a
// start goes on from it also when the first snapshot since is broken off.
func TestCutLogAlone(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir, _ := repairDir(t, true, false)
	manifests, _, err := snapfile.ReadManifests(vfs.OS(), dir)
	must(t, err)
	for _, m := range manifests {
		must(t, os.Remove(filepath.Join(dir, format.ManifestName(m.Generation))))
	}
	must(t, datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS())}))
	fs := &hookFS{FS: vfs.OS()}
	opts := repairOptions
	opts.FS = fs
	s, err := Open(dir, opts)
	must(t, err)
	must(t, s.Set("1.cntrn", 77))
	must(t, s.data.Log.Sync())
	images, killed := 0, ""
	fs.hook = func(string) {
		if images++; images == 3 {
			killed = copyDir(t, dir)
		}
	}
	must(t, s.Snapshot())
	fs.hook = nil
	must(t, s.Close())
	if killed == "" {
		t.Fatalf("a snapshot of %d images", images)
	}
	s, err = Open(killed, repairOptions)
	must(t, err)
	if v, _, err := s.Get("1.cntrn"); v != 77 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	must(t, s.Close())
}

// TestCutLogFollow: whether the log of a replica needs a snapshot does not depend on the log of its primary.
func TestCutLogFollow(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	for _, cut := range []bool{false, true} {
		dir, _ := repairDir(t, cut, false)
		s, err := Open(dir, repairOptions)
		must(t, err)
		l := s.Replication().Lineage()
		l.NeedsSnapshot = !cut
		_, err = s.Replication().Follow(l)
		must(t, err)
		if got := s.Replication().Lineage(); got.NeedsSnapshot != cut {
			t.Errorf("cut %t: a replica whose log needs a snapshot: %t", cut, got.NeedsSnapshot)
		}
		must(t, s.Close())
		if needsSnapshot(t, dir) != cut {
			t.Errorf("cut %t: HISTORY of a log that needs a snapshot: %t", cut, !cut)
		}
	}
}

// TestHistoryDeleted: the log needs a snapshot, and HISTORY and its copy are deleted. The start does not forget that the log needs one, and none goes by the log alone
// where the manifests are deleted too, behind that start or before it.
func TestHistoryDeleted(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	for _, started := range []bool{true, false} {
		dir, want := repairDir(t, true, false)
		must(t, os.Remove(format.LineagePath(dir)))
		must(t, os.Remove(format.LineagePath(dir)+vfs.CopySuffix))
		if started {
			s, err := Open(dir, repairOptions)
			must(t, err)
			must(t, s.Close())
			if !needsSnapshot(t, dir) {
				t.Error("HISTORY does not say any more that the log needs a snapshot")
			}
		}
		manifests, _, err := snapfile.ReadManifests(vfs.OS(), dir)
		must(t, err)
		for _, m := range manifests {
			must(t, os.Remove(filepath.Join(dir, format.ManifestName(m.Generation))))
		}
		report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
		must(t, err)
		if report.OK() {
			t.Errorf("started %t: check finds nothing", started)
		}
		if s, err := Open(dir, repairOptions); err == nil {
			old, unreadable := compareValues(t, s, want)
			must(t, s.Close())
			t.Errorf("started %t: a start from the log alone: %d old values, %d errors", started, old, unreadable)
		}
	}
}

// TestOtherFiles: the folders of a new directory have files that are no snapshot's, as lost+found where a folder is a disk of its own. A crash before the first
// snapshot loses nothing.
func TestOtherFiles(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir := t.TempDir()
	for _, name := range []string{format.ImageDir(dir), format.ColdDir(dir)} {
		must(t, os.MkdirAll(filepath.Join(name, "lost+found"), 0o750))
		must(t, os.WriteFile(filepath.Join(name, ".keep"), nil, 0o640))
	}
	s := openDir(t, dir, repairOptions, seedScript)
	must(t, s.Set("1.cntcm", 7))
	must(t, s.data.Log.Sync())
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	must(t, s.Close())
	report, err := datadir.Check(vfs.OS(), killed, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
	must(t, err)
	if !report.OK() {
		t.Errorf("check finds %+v", report.Problems)
	}
	s, err = Open(killed, repairOptions)
	must(t, err)
	if v, _, err := s.Get("1.cntcm"); v != 7 || err != nil {
		t.Errorf("got %d, %v, want 7", v, err)
	}
	must(t, s.Close())
}

// TestCutLogFeed: a consumer has a position of before the first change, and a repair cuts the log. The log lacks changes that the images have, so the
// position cannot be continued. The beginning of the log of now can be, and so can that position in a log that no repair cut.
func TestCutLogFeed(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	for _, cut := range []bool{false, true} {
		dir, _ := repairDir(t, cut, false)
		s, err := Open(dir, repairOptions)
		must(t, err)
		past := FeedPosition{Term: [8]byte{0xaa}, Epoch: 1}
		oldest, err := s.Feeds().Oldest()
		must(t, err)
		for name, at := range map[string]FeedPosition{"a position of before": past, "the oldest one": oldest} {
			if at.Offset() != 0 {
				t.Fatalf("cut %t, %s: got offset %d, want 0", cut, name, at.Offset())
			}
			r := newFeedReader()
			r.at = at
			err := r.read(t, s, s.data.Log.Position())
			var history *FeedHistoryError
			if lost := cut && at == past; lost != errors.As(err, &history) || lost && history.Known || !lost && err != nil {
				t.Errorf("cut %t, %s: got %v", cut, name, err)
			}
			if cut || err != nil {
				continue
			}
			checkStore(t, s, r.posts)
		}
		must(t, s.Close())
	}
}
