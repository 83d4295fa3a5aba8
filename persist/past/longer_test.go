package past

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLongerLog: the note comes back as it was, from its copy too, and is damaged only where both files are. It counts for a log of its term
// that ends before it.
func TestLongerLog(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	name := dir + "/" + LongerName
	want := LongerLog{Term: format.NewReplID(), Offset: 700, Host: "a host", Port: 7001}
	if got, err := ReadLonger(fsys, dir); err != nil || got != (LongerLog{}) {
		t.Errorf("no file: %+v, %v", got, err)
	}
	if err := errors.Join(ForgetLonger(fsys, dir), NoteLonger(fsys, dir, want)); err != nil {
		t.Fatal(err)
	}
	for i, damage := range []func() error{
		func() error { return nil },
		func() error { return vfs.RemoveIfThere(fsys, name) },
		func() error { return vfs.WriteFileAtomic(fsys, name, want.text()[:90]) },
		func() error { return vfs.WriteFileAtomic(fsys, name, append(want.text(), '\n')) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadLonger(fsys, dir); err != nil || got != want {
			t.Errorf("damage %d: %+v, %v", i, got, err)
		}
	}
	if err := vfs.WriteFileAtomic(fsys, name+vfs.CopySuffix, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadLonger(fsys, dir); !errors.Is(err, format.ErrCorrupt) || got != (LongerLog{}) {
		t.Errorf("both are damaged: %+v, %v", got, err)
	}
	if err := ForgetLonger(fsys, dir); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadLonger(fsys, dir); err != nil || got != (LongerLog{}) {
		t.Errorf("forgotten: %+v, %v", got, err)
	}
	if !want.Beyond(want.Term, 699) || want.Beyond(want.Term, 700) || want.Beyond(format.NewReplID(), 1) {
		t.Error("it counts for another log")
	}
}
