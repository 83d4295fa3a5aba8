package persist

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var (
	scripts = flag.Uint64("scripts", 60, "lives of a log that TestLogCrash crashes at every operation; one gives about 300 points")
	update  = flag.Bool("update", false, "rewrite golden files")
)

// newSeed returns the seed of a random test and prints it if the test fails.
func newSeed(t testing.TB) uint64 {
	return seed.Of(t)
}

// clock is a clock that moves by hand.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.UnixMilli(1_700_000_000_000)} }

func (c *clock) Now() time.Time { return c.now }

const testDir = "/data"

// newFS returns a simulated file system with a data directory.
func newFS(t testing.TB) *vfs.Sim {
	s := vfs.NewSim()
	must(t, s.MkdirAll(testDir))
	must(t, s.SyncDir("/"))
	return s
}

// testHistory is the history of test logs: a fixed id, so that files are the same in each run.
var testHistory = format.History{ReplID: format.ReplID{1, 2, 3, 19: 9}, Epoch: 7}

// smallLog are options that rotate after a few frames and start no goroutine.
func smallLog(fsys vfs.FS, c *clock) LogOptions {
	return LogOptions{
		FS: fsys, Dir: testDir, History: testHistory, Create: true, Manual: true, Now: c.Now,
		FirstSegmentBytes: 512, SegmentBytes: 1024,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Discard is an apply function for tests that do not look at records.
func discard(uint64, *format.Record) error { return nil }

// golden compares got with testdata/name, or writes it with -update.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if string(want) != string(got) {
		t.Errorf("%s differs from the golden file: %d bytes, want %d", name, len(got), len(want))
	}
	return want
}
