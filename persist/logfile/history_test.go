package logfile

import (
	"bytes"
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLineageTwice: no damage of HISTORY or of its copy takes the past of a log, and it is found. Where both are damaged the log
// has no past.
func TestLineageTwice(t *testing.T) {
	disk := filetest.NewFS(t)
	l := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 3, Start: 0}, {ReplID: format.ReplID{2}, Epoch: 4, Start: 700}}}
	filetest.Must(t, WriteLineage(disk, filetest.Dir, &l))
	want := l.AppendText(nil)
	name := format.LineagePath(filetest.Dir)
	same := func(what string) {
		t.Helper()
		got, err := ReadLineage(disk, filetest.Dir)
		if err != nil || !bytes.Equal(got.AppendText(nil), want) {
			t.Fatalf("%s: %+v, %v", what, got, err)
		}
	}
	for _, path := range []string{name, name + vfs.CopySuffix} {
		for what, bad := range damagetest.Variants(t, want, len(want)) {
			filetest.Must(t, vfs.WriteFileAtomic(disk, path, bad))
			same(path + ": " + what)
			if LineageFault(disk, filetest.Dir) == nil {
				t.Fatalf("%s: %s is not found", path, what)
			}
		}
		filetest.Must(t, disk.Remove(path))
		same(path + " is gone")
		if fault := LineageFault(disk, filetest.Dir); (fault != nil) != (path == name) {
			t.Errorf("%s is gone: %v", path, fault)
		}
		filetest.Must(t, WriteLineage(disk, filetest.Dir, &l))
	}
	for _, path := range []string{name, name + vfs.CopySuffix} {
		filetest.Must(t, vfs.WriteFileAtomic(disk, path, want[1:]))
	}
	if got, err := ReadLineage(disk, filetest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("both are damaged: %+v, %v", got, err)
	}
	filetest.Must(t, disk.Remove(name))
	if got, err := ReadLineage(disk, filetest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("one is gone, and the other damaged: %+v, %v", got, err)
	}
	filetest.Must(t, vfs.RemoveTwice(disk, name))
	if got, err := ReadLineage(disk, filetest.Dir); err != nil || len(got.Terms) > 0 || got.Replica {
		t.Errorf("none is there: %+v, %v", got, err)
	}
}
