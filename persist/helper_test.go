package persist

import (
	"flag"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var scripts = flag.Uint64("scripts", 25, "lives of a log that TestLogCrash crashes at every operation; one gives about 300 points")

const testDir = filetest.Dir

type clock = filetest.Clock

var must, golden, newFS, newClock, put, newSeed = filetest.Must, filetest.Golden, filetest.NewFS, filetest.NewClock, filetest.Put, seed.Of

// testHistory is the history of test logs: a fixed id, so that files are the same in each run.
var testHistory = format.History{ReplID: format.ReplID{1, 2, 3, 19: 9}, Epoch: 7}

// smallLog are options that rotate after a few frames and start no goroutine.
func smallLog(fsys vfs.FS, c *clock) LogOptions {
	return LogOptions{
		FS: fsys, Dir: testDir, History: testHistory, Create: true, Manual: true, Now: c.Now,
		FirstSegmentBytes: 512, SegmentBytes: 1024,
	}
}

// Discard is an apply function for tests that do not look at records.
func discard(uint64, *format.Record) error { return nil }
