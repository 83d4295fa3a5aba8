package datadir

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRepairPartOfLog: a repair cut the log below its snapshot, and later the manifests are gone. The next repair says that changes are lost, keeps the
// images, and gives the directory a past of its own, also if it crashes anywhere. A later repair has nothing to do.
func TestRepairPartOfLog(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}))
	good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	segs, err := logfile.Segments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	for _, seg := range slices.Backward(segs) {
		if seg.Start < good[0].Offset {
			persisttest.Damage(t, disk, seg.Path, seg.Segment().Offset(good[0].Offset)-1)
			break
		}
	}
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
	if all, err := logfile.HasAll(disk, persisttest.Dir); all || err != nil {
		t.Fatalf("the log has all changes: %t, %v", all, err)
	}
	left, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	for _, m := range left {
		persisttest.Must(t, disk.Remove(persisttest.Dir+"/"+format.ManifestName(m.Generation)))
	}
	persisttest.Must(t, disk.SyncDir(persisttest.Dir))
	before, err := logfile.ReadLineage(disk, persisttest.Dir)
	persisttest.Must(t, err)
	images := func(fsys vfs.FS) int {
		names, err := fsys.List(format.ImageDir(persisttest.Dir))
		persisttest.Must(t, err)
		return len(names)
	}
	want := images(disk)
	for n, crashed := 0, true; crashed; n++ {
		fsys := disk.Kill()
		fsys.CrashAt(n)
		lacks := 0
		var said []string
		err := Repair(fsys, persisttest.Dir, RepairOptions{Say: func(line string) { said = append(said, line) }, Lacks: func() error { lacks++; return nil }})
		if crashed = fsys.Crashed(); !crashed && (err != nil || lacks != 1 || !strings.Contains(strings.Join(said, "\n"), "LOST: ")) {
			t.Fatalf("%v, %d calls of Lacks; repair says:\n%s", err, lacks, strings.Join(said, "\n"))
		}
		fsys = fsys.Crash(uint64(n), 50)
		persisttest.Must(t, Repair(fsys, persisttest.Dir, RepairOptions{}))
		if orphans, err := snapfile.FindOrphans(fsys, persisttest.Dir, nil); err != nil || len(orphans) > 0 || images(fsys) != want {
			t.Fatalf("crash at %d: %d of %d images, a start removes %v, %v", n, images(fsys), want, orphans, err)
		}
		after, err := logfile.ReadLineage(fsys, persisttest.Dir)
		persisttest.Must(t, err)
		if len(after.Terms) != 1 || after.Current().ReplID == before.Current().ReplID {
			t.Fatalf("crash at %d: HISTORY %+v", n, after)
		}
		persisttest.Must(t, Repair(fsys, persisttest.Dir, RepairOptions{Say: func(line string) { t.Errorf("crash at %d, and a later repair: %s", n, line) }}))
	}
}

// TestRepairCutNeedsSnapshot: a repair cuts the log below the snapshot, at the latest frame in front of that or at offset 0, with HISTORY or without a good one,
// and crashes anywhere. As soon as the log lacks changes of the snapshot, HISTORY says that the log needs the snapshot, and no start goes without.
func TestRepairCutNeedsSnapshot(t *testing.T) {
	for _, at := range []string{"below the snapshot", "at 0"} {
		for _, history := range []string{"good", "damaged"} {
			t.Run(at+", HISTORY "+history, func(t *testing.T) {
				_, disk, _ := persisttest.SampleDir(t)
				persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}))
				good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
				persisttest.Must(t, err)
				m := good[0]
				bad := m.Offset - 1
				if at == "at 0" {
					bad = 5 // of the first frame
					m.Generation, m.Replay = m.Generation+1, 0
					persisttest.Must(t, snapfile.WriteManifest(disk, persisttest.Dir, m))
				}
				segs, err := logfile.Segments(disk, persisttest.Dir)
				persisttest.Must(t, err)
				for _, seg := range slices.Backward(segs) {
					if seg.Start <= bad {
						persisttest.Damage(t, disk, seg.Path, seg.Segment().Offset(bad))
						break
					}
				}
				if history == "damaged" {
					persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir), 30)
					persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir)+vfs.CopySuffix, 30)
				}
				disk = disk.Crash(0, 100) // the damage is on the disk
				for n, fsys := range crashedRepairs(t, disk) {
					whole := func() bool { // as a start without snapshots finds the log
						all, err := logfile.HasAll(fsys, persisttest.Dir)
						if err != nil || !all {
							return false
						}
						_, err = logfile.Walk(fsys, persisttest.Dir, 0, 0, logfile.Visitor{
							Frame: func(seg logfile.SegmentInfo, f *format.Frame) error {
								return logfile.VerifyFrame(f, persisttest.Dir, seg)
							},
						})
						return err == nil
					}
					if whole() {
						t.Fatalf("crash at %d: the log lacks changes, and counts as one that has all", n)
					}
					persisttest.Must(t, Repair(fsys, persisttest.Dir, RepairOptions{}))
					if err := opens(t, fsys); err != nil {
						t.Fatalf("crash at %d: %v", n, err)
					}
					if whole() {
						t.Fatalf("crash at %d: the repaired log lacks changes, and counts as one that has all", n)
					}
				}
			})
		}
	}
}
