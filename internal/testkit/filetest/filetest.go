// Package filetest has helpers that tests of files share: a simulated file system with a data directory, a clock that moves
// by hand, and golden files. It knows no format, so that the tests of each format can import it. Only tests import it.
package filetest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// Update tells tests to write golden files anew.
var Update = flag.Bool("update", false, "write golden files anew: only where a format has a new version")

// Dir is the data directory of NewFS.
const Dir = "/data"

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewFS returns a simulated file system with the directory Dir.
func NewFS(t testing.TB) *vfs.Sim {
	s := vfs.NewSim()
	Must(t, s.MkdirAll(Dir))
	Must(t, s.SyncDir("/"))
	return s
}

// Put writes a file over another.
func Put(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	Must(t, fsys.Remove(path))
	f, err := fsys.Create(path)
	Must(t, err)
	_, err = f.WriteAt(b, 0)
	Must(t, err)
	Must(t, f.Close())
}

// Clock is a clock that moves by hand.
type Clock struct{ At time.Time }

// NewClock returns a clock that stands at a moment of 2023.
func NewClock() *Clock { return &Clock{time.UnixMilli(1_700_000_000_000)} }

// Now is LogOptions.Now.
func (c *Clock) Now() time.Time { return c.At }

// Golden compares got with testdata/name, or writes it with -update. It returns the content of the file.
func Golden(t testing.TB, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *Update {
		Must(t, os.MkdirAll("testdata", 0o755))
		Must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	Must(t, err)
	if string(want) != string(got) {
		t.Errorf("%s differs from the golden file: %d bytes, want %d", name, len(got), len(want))
	}
	return want
}
