package vfs

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestStream: a stream reads the whole file on every file system, and of the operating system's it is an os.File.
func TestStream(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, fsys := range []FS{OS(), NewSim()} {
		must(t, fsys.MkdirAll(filepath.Dir(name)))
		put(t, fsys, name, "content")
		s, err := OpenStream(fsys, name)
		must(t, err)
		got, err := io.ReadAll(s)
		must(t, err)
		if _, err = s.Seek(3, io.SeekStart); err != nil || string(got) != "content" || s.Size() != 7 {
			t.Errorf("got %q, %d bytes: %v", got, s.Size(), err)
		}
		_, isFile := s.Streamer.(*os.File)
		if isFile != (fsys == OS()) {
			t.Errorf("%T: is a file: %t", fsys, isFile)
		}
		must(t, s.Close())
		if _, err := OpenStream(fsys, name+"2"); !IsNotExist(err) {
			t.Errorf("got %v, want that there is no such file", err)
		}
	}
}
