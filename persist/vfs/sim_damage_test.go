package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"testing"
)

// TestSimDamage: damage is seen by open files, is there after a power failure, and leaves all other sectors as they were.
func TestSimDamage(t *testing.T) {
	s := NewSim()
	if err := s.MkdirAll("d/e"); err != nil {
		t.Fatal(err)
	}
	f, err := s.Create("d/e/f")
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Repeat([]byte{1}, 3*sectorSize+100)
	if _, err := f.WriteAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{f.Sync(), s.SyncDir("d/e"), s.SyncDir("d"), s.SyncDir(".")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteAt([]byte{2}, 0); err != nil { // not synced
		t.Fatal(err)
	}
	before := s.Kill()
	flip := func(b []byte) []byte { b[2*sectorSize] ^= 4; return b }
	if err := s.Damage("/d/e/f", flip); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(whole)
	want[2*sectorSize] = 5
	content := func(s *Sim) []byte {
		t.Helper()
		b, err := ReadFile(s, "d/e/f", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if got := content(s.Crash(1, 0)); !bytes.Equal(got, want) {
		t.Error("after a power failure the damage is not there, or more is")
	}
	want[0] = 2
	if got := make([]byte, len(want)); true {
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Error("an open file does not see the damage alone", err)
		}
	}
	if whole[0] = 2; !bytes.Equal(content(before), whole) {
		t.Error("a fork from before is damaged")
	}
	if err := s.Damage("d/e/f", func(b []byte) []byte { return b[:700] }); err != nil {
		t.Fatal(err)
	}
	if got := content(s.Crash(1, 100)); !bytes.Equal(got, want[:700]) {
		t.Errorf("%d bytes after a cut to 700", len(got))
	}
	if _, err := f.WriteAt([]byte{3}, 3*sectorSize); err != nil || f.Sync() != nil {
		t.Fatal("a cut file cannot be written", err)
	}
	if got := content(s.Crash(1, 0)); len(got) != 3*sectorSize+1 || got[701] != 0 || got[3*sectorSize] != 3 {
		t.Errorf("%d bytes behind a write after the cut", len(got))
	}
	if got := s.Files("d"); !slices.Equal(got, []string{"d/e/f"}) || s.Files("x") != nil {
		t.Errorf("files: %v", got)
	}
	if err := s.Damage("d/e/f", func([]byte) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, later := range []*Sim{s, s.Crash(1, 0), s.Crash(1, 100), s.Kill()} {
		if names := later.Files("."); names != nil {
			t.Errorf("a file that is gone: %v", names)
		}
	}
	for _, name := range []string{"d/e/f", "d/x/f", "d/e"} {
		if err := s.Damage(name, flip); err == nil || name != "d/e" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("damage of %s: %v", name, err)
		}
	}
}
