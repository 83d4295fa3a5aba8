package datadir

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// coldSample is persisttest.SampleDir with a third block in each manifest, a cold file of eight bytes. The older one names a file
// of its own if own is set, else both name the same.
func coldSample(t testing.TB, own bool) *vfs.Sim {
	t.Helper()
	_, disk, _ := persisttest.SampleDir(t)
	good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	persisttest.Must(t, disk.MkdirAll(format.ColdDir(persisttest.Dir)))
	for i, m := range good {
		name := format.ColdName(3, 1)
		if own && i == 1 {
			name = format.ColdName(1, 1)
		}
		if _, err := disk.Stat(format.ColdDir(persisttest.Dir) + "/" + name); err != nil {
			f, err := disk.Create(format.ColdDir(persisttest.Dir) + "/" + name)
			persisttest.Must(t, err)
			_, err = f.WriteAt([]byte("cold"+name[:4]), 0)
			persisttest.Must(t, errors.Join(err, f.Sync(), f.Close()))
		}
		c := &m.Counters[0]
		m.NextBlock = 4
		c.Blocks = append(c.Blocks, format.BlockFile{Tier: format.TierCold, Block: 3, Lo: 200, Hi: 300, Offset: m.Offset, Items: 5, Bytes: 8, Name: name})
		persisttest.Must(t, vfs.WriteFileAtomic(disk, persisttest.Dir+"/"+format.ManifestName(m.Generation), m.Text()))
	}
	return disk
}

func TestRepairColdFallsBack(t *testing.T) {
	disk := coldSample(t, true)
	persisttest.Must(t, disk.Remove(format.ColdDir(persisttest.Dir)+"/"+format.ColdName(3, 1)))
	report, err := Check(disk, persisttest.Dir, CheckOptions{})
	persisttest.Must(t, err)
	if !report.OK() {
		t.Errorf("a server starts from the older snapshot, but check says %v", report.Problems)
	}
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
	good, bad, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	if len(good) != 1 || len(bad) > 0 || good[0].Counters[0].Blocks[2].Name != format.ColdName(1, 1) {
		t.Errorf("manifests left: %v, %v", good, bad)
	}
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { t.Error("second repair:", s) }}))
}

// TestRestoreColdReplaced: a restore of a directory in use does not find a cold file, as the server has put another in its place: it ends, to begin anew. Where the file is missing for good
// the rest is restored. The rest alone was, and the restore said that it went well.
func TestRestoreColdReplaced(t *testing.T) {
	disk := withoutCold(t)
	walked, err := logfile.Walk(disk, persisttest.Dir, 0, 0, logfile.Visitor{})
	persisttest.Must(t, err)
	lost, said := false, ""
	opts := RestoreOptions{Lost: func(string) bool { return lost }, Say: func(s string) { said += s + "\n" }}
	if _, err := Restore(disk, persisttest.Dir, disk, "/out", Target{Offset: walked.End}, opts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := disk.Stat("/out"); !vfs.IsNotExist(err) {
		t.Errorf("a directory is left: %v", err)
	}
	lost = true
	if _, err := Restore(disk, persisttest.Dir, disk, "/out", Target{Offset: walked.End}, opts); err != nil || !strings.Contains(said, "left out: cold file") {
		t.Errorf("%v, said %s", err, said)
	}
}

// withoutCold is coldSample without the cold file, and without the beginning of the log, which would have all that the file has.
func withoutCold(t *testing.T) *vfs.Sim {
	t.Helper()
	disk := coldSample(t, false)
	segs, err := logfile.Segments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	good, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	for i := 0; i+1 < len(segs) && segs[i+1].Start <= good[1].Replay; i++ {
		persisttest.Must(t, disk.Remove(segs[i].Path))
	}
	persisttest.Must(t, disk.Remove(format.ColdDir(persisttest.Dir)+"/"+format.ColdName(3, 1)))
	return disk
}

func TestRepairColdMissing(t *testing.T) {
	disk := withoutCold(t)
	report, err := Check(disk, persisttest.Dir, CheckOptions{})
	persisttest.Must(t, err)
	if report.OK() {
		t.Error("check finds nothing wrong")
	}
	err = Repair(disk, persisttest.Dir, RepairOptions{})
	var fault *snapfile.BlockFault
	if !errors.As(err, &fault) || !fault.Unusable || !slices.Equal(fault.Lost, []snapfile.MidRange{{Lo: 200, Hi: 300}}) || !strings.Contains(err.Error(), "[200, 300)") {
		t.Errorf("repair without leave to give anything up: %v", err)
	}
	// With the whole log there nothing is lost: the manifests go, the log stays.
	disk = coldSample(t, false)
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}))
	persisttest.Must(t, disk.Remove(format.ColdDir(persisttest.Dir)+"/"+format.ColdName(3, 1)))
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
	if good, bad, err := snapfile.ReadManifests(disk, persisttest.Dir); err != nil || len(good)+len(bad) > 0 {
		t.Errorf("manifests left: %v, %v, %v", good, bad, err)
	}
}
