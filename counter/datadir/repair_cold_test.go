package datadir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// coldSample is sampleDir with a third block in each manifest, a cold file of eight bytes. The older one names a file
// of its own if own is set, else both name the same.
func coldSample(t testing.TB, own bool) *vfs.Sim {
	t.Helper()
	_, disk, _ := sampleDir(t)
	good, _, err := persist.ReadManifests(disk, testDir)
	must(t, err)
	must(t, disk.MkdirAll(persist.ColdDir(testDir)))
	for i, m := range good {
		name := persist.ColdName(3, 1)
		if own && i == 1 {
			name = persist.ColdName(1, 1)
		}
		if _, err := disk.Stat(persist.ColdDir(testDir) + "/" + name); err != nil {
			f, err := disk.Create(persist.ColdDir(testDir) + "/" + name)
			must(t, err)
			_, err = f.WriteAt([]byte("cold"+name[:4]), 0)
			must(t, errors.Join(err, f.Sync(), f.Close()))
		}
		c := &m.Counters[0]
		m.NextBlock = 4
		c.Blocks = append(c.Blocks, persist.BlockFile{Tier: persist.TierCold, Block: 3, Lo: 200, Hi: 300, Offset: m.Offset, Items: 5, Bytes: 8, Name: name})
		must(t, vfs.WriteFileAtomic(disk, testDir+"/"+persist.ManifestName(m.Generation), m.Text()))
	}
	return disk
}

func TestRepairColdFallsBack(t *testing.T) {
	disk := coldSample(t, true)
	must(t, disk.Remove(persist.ColdDir(testDir)+"/"+persist.ColdName(3, 1)))
	report, err := Check(disk, testDir, CheckOptions{})
	must(t, err)
	if !report.OK() {
		t.Errorf("a server starts from the older snapshot, but check says %v", report.Problems)
	}
	must(t, Repair(disk, testDir, RepairOptions{}))
	good, bad, err := persist.ReadManifests(disk, testDir)
	must(t, err)
	if len(good) != 1 || len(bad) > 0 || good[0].Counters[0].Blocks[2].Name != persist.ColdName(1, 1) {
		t.Errorf("manifests left: %v, %v", good, bad)
	}
	must(t, Repair(disk, testDir, RepairOptions{Say: func(s string) { t.Error("second repair:", s) }}))
}

func TestRepairColdMissing(t *testing.T) {
	// The log from its beginning would hold everything: it must not be there for this test.
	gone := func() *vfs.Sim {
		disk := coldSample(t, false)
		segs, err := persist.Segments(disk, testDir)
		must(t, err)
		good, _, err := persist.ReadManifests(disk, testDir)
		must(t, err)
		for i := 0; i+1 < len(segs) && segs[i+1].Start <= good[1].Replay; i++ {
			must(t, disk.Remove(segs[i].Path))
		}
		must(t, disk.Remove(persist.ColdDir(testDir)+"/"+persist.ColdName(3, 1)))
		return disk
	}
	disk := gone()
	report, err := Check(disk, testDir, CheckOptions{})
	must(t, err)
	if report.OK() {
		t.Error("check finds nothing wrong")
	}
	err = Repair(disk, testDir, RepairOptions{})
	var fault *persist.BlockFault
	if !errors.As(err, &fault) || !fault.Unusable || !slices.Equal(fault.Lost, []persist.MidRange{{Lo: 200, Hi: 300}}) || !strings.Contains(err.Error(), "[200, 300)") {
		t.Errorf("repair without leave to give anything up: %v", err)
	}
	// With the whole log there nothing is lost: the manifests go, the log stays.
	disk = coldSample(t, false)
	must(t, disk.Remove(persist.ColdDir(testDir)+"/"+persist.ColdName(3, 1)))
	must(t, Repair(disk, testDir, RepairOptions{}))
	if good, bad, err := persist.ReadManifests(disk, testDir); err != nil || len(good)+len(bad) > 0 {
		t.Errorf("manifests left: %v, %v, %v", good, bad, err)
	}
}
