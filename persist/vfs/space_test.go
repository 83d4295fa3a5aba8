package vfs

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestSpace: what a file takes is missing in the free space, and what does not fit changes nothing.
func TestSpace(t *testing.T) {
	s := NewSim()
	if space, err := s.Space("/"); err != nil || space.Free != MaxSpace {
		t.Errorf("no limit: got %+v, %v", space, err)
	}
	s.SetCapacity(1000)
	f, err := s.Create("f")
	must(t, err)
	must(t, f.Preallocate(400))
	_, err = f.WriteAt(make([]byte, 100), 350)
	must(t, err)
	if space, err := s.Space("/"); err != nil || space != (Space{Free: 550, Total: 1000}) {
		t.Errorf("got %+v, %v", space, err)
	}
	_, err = f.WriteAt(make([]byte, 700), 350)
	wantErr(t, err, syscall.ENOSPC)
	wantErr(t, f.Preallocate(1001), syscall.ENOSPC)
	wantErr(t, f.Truncate(1001), syscall.ENOSPC)
	if size, err := f.Size(); err != nil || size != 450 {
		t.Errorf("size %d, %v", size, err)
	}
	must(t, f.Close())
	must(t, s.Remove("f"))
	if space, _ := s.Space("/"); space.Free != 1000 {
		t.Errorf("got %+v", space)
	}

	space, err := OS().Space(t.TempDir())
	must(t, err)
	if space.Free < 0 || space.Total < space.Free {
		t.Errorf("the real one: %+v", space)
	}
	_, err = OS().Space(filepath.Join(t.TempDir(), "x"))
	wantErr(t, err, syscall.ENOENT)
}

// TestSameFile: a file is the same under another name, and another one under its name is not.
func TestSameFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		put(t, fsys, name, "1")
		a, err := fsys.Stat(name)
		must(t, err)
		must(t, fsys.Rename(name, name+"2"))
		put(t, fsys, name, "1")
		b, err := fsys.Stat(name)
		must(t, err)
		if SameFile(a, b) {
			t.Error("another file is the same")
		}
		must(t, fsys.Rename(name+"2", name))
		if b, err = fsys.Stat(name); err != nil || !SameFile(a, b) {
			t.Errorf("the file is not itself, %v", err)
		}
	})
}
