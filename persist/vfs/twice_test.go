package vfs

import (
	"bytes"
	"testing"
)

// TestWriteTwiceCrash replaces a file and its copy, with a crash at every operation: one of the two is always whole, and the copy is
// never the older one. A removal leaves the file as it was, or none of the two.
func TestWriteTwiceCrash(t *testing.T) {
	old, next := []byte("the old text"), []byte("a new text")
	for n, crashed := 0, true; crashed; n++ {
		disk := NewSim()
		if err := WriteTwice(disk, "a", old); err != nil {
			t.Fatal(err)
		}
		disk = disk.Crash(1, 100)
		disk.CrashAt(disk.Ops() + n)
		err := WriteTwice(disk, "a", next)
		if crashed = disk.Crashed(); crashed == (err == nil) {
			t.Fatalf("operation %d: crashed %v, %v", n, crashed, err)
		}
		for _, left := range []*Sim{disk.Kill(), disk.Crash(uint64(n), 0), disk.Crash(uint64(n), 50)} {
			file, err := ReadFile(left, "a", 100)
			if err != nil || !bytes.Equal(file, old) && !bytes.Equal(file, next) {
				t.Fatalf("operation %d: the file has %q, %v", n, file, err)
			}
			second, err := ReadFile(left, "a"+CopySuffix, 100)
			if err != nil || !bytes.Equal(second, next) && !(bytes.Equal(second, old) && bytes.Equal(file, old)) {
				t.Fatalf("operation %d: the file has %q, and the copy %q, %v", n, file, second, err)
			}
		}
	}
	disk := NewSim()
	for range 2 { // the second time nothing is there
		if err := RemoveTwice(disk, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := disk.Stat("a"); !IsNotExist(err) {
			t.Errorf("the file is there: %v", err)
		}
	}
}
