package past

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// emptyDir returns the directory of a new replica: its log was opened and closed, and never got a frame.
func emptyDir(t *testing.T) *vfs.Sim {
	t.Helper()
	disk := persisttest.NewFS(t)
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	defer d.Close()
	l, _, err := persist.OpenLog(persisttest.SmallLog(disk, persisttest.NewClock()), 0, persisttest.Discard)
	persisttest.Must(t, err)
	persisttest.Must(t, l.Close())
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Replica: true}))
	return disk
}

// TestHoldsNothing: damage of the files of a directory without data does not make it one with data. Each trace of data does, and so does
// a disk that cannot be read.
func TestHoldsNothing(t *testing.T) {
	_, sample, _ := persisttest.SampleDir(t)
	segs, err := logfile.ListSegments(sample, persisttest.Dir)
	persisttest.Must(t, err)
	frames, err := vfs.ReadFile(sample, segs[0].Path, 1<<20)
	persisttest.Must(t, err)
	log := filepath.Join(persisttest.Dir, format.LogDirName, format.SegmentName(0))
	history := []string{format.LineagePath(persisttest.Dir), format.LineagePath(persisttest.Dir) + vfs.CopySuffix}
	damage := func(t *testing.T, disk *vfs.Sim, paths ...string) {
		for _, path := range paths {
			persisttest.Must(t, disk.Damage(path, func(b []byte) []byte { clear(b[:min(len(b), 512)]); return b }))
		}
	}
	file := func(name string) func(t *testing.T, disk *vfs.Sim) {
		return func(t *testing.T, disk *vfs.Sim) {
			persisttest.Must(t, vfs.WriteFileAtomic(disk, filepath.Join(persisttest.Dir, name), []byte("x")))
		}
	}
	for name, c := range map[string]struct {
		change  func(t *testing.T, disk *vfs.Sim)
		nothing bool
	}{
		"whole":                    {func(*testing.T, *vfs.Sim) {}, true},
		"the log's header":         {func(t *testing.T, disk *vfs.Sim) { damage(t, disk, log) }, true},
		"the log is gone":          {func(t *testing.T, disk *vfs.Sim) { persisttest.Must(t, disk.Remove(log)) }, true},
		"the log and both HISTORY": {func(t *testing.T, disk *vfs.Sim) { damage(t, disk, append(history, log)...) }, true},
		"bits where frames would be": {func(t *testing.T, disk *vfs.Sim) {
			persisttest.Must(t, disk.Damage(log, func(b []byte) []byte { b[100] ^= 8; b[200] ^= 1; return b }))
		}, true},
		"frames behind damage": {func(t *testing.T, disk *vfs.Sim) {
			persisttest.Must(t, disk.Damage(log, func([]byte) []byte { b := append([]byte(nil), frames...); clear(b[:100]); return b }))
			damage(t, disk, history...)
		}, false},
		"a term": {func(t *testing.T, disk *vfs.Sim) {
			persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{1}}}}))
			damage(t, disk, log)
		}, false},
		"DURABLE":         {file(format.ClaimName), false},
		"CONFIRMED":       {file(ConfirmedName), false},
		"HEALING":         {file(format.HealingName), false},
		"an image":        {file(filepath.Join(format.ImageDirName, "1-2.hot")), false},
		"a later segment": {file(filepath.Join(format.LogDirName, format.SegmentName(4096))), false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := emptyDir(t)
			c.change(t, disk)
			if nothing, err := HoldsNothing(disk, persisttest.Dir); err != nil || nothing != c.nothing {
				t.Errorf("got %t, %v, want %t", nothing, err, c.nothing)
			}
		})
	}
	disk := emptyDir(t)
	failing := vfs.NewFaulty(disk)
	failing.Inject(vfs.Rule{Ops: vfs.OpRead, Every: 1, Err: syscall.EIO})
	if nothing, err := HoldsNothing(failing, persisttest.Dir); nothing {
		t.Errorf("a disk that cannot be read: %t, %v", nothing, err)
	}
}
