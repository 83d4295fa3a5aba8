// Scenario: tail, commands work on a log whose end was set aside or is damaged.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// newDir makes a directory with a few posts and one change at its end.
func newDir(t *testing.T) (dir string, end uint64) {
	t.Helper()
	dir = t.TempDir()
	store, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"7.c", "8.c", "9.c"} {
		end = store.Replication().Written()
		if _, err := store.Incr(key, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, end
}

// run runs the tool and looks for words in its output.
func run(t *testing.T, status int, words []string, args ...string) string {
	t.Helper()
	out, text, got := ctl(t, args...)
	if got != status {
		t.Errorf("%q: status %d, want %d\n%s%s", args, got, status, out, text)
	}
	for _, w := range words {
		if !strings.Contains(out+text, w) {
			t.Errorf("%q: no %q in\n%s%s", args, w, out, text)
		}
	}
	return out + text
}

// flipAt flips a bit of a file.
func flipAt(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 4
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
}

// TestTails checks and dumps what nodes put aside of their logs: a whole file is whole, under whatever name.
func TestTails(t *testing.T) {
	dir, at := newDir(t)
	l, err := logfile.ReadLineage(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := past.Cut(vfs.OS(), dir, at, l)
	if err != nil || cut.File == "" {
		t.Fatal(cut, err)
	}
	moved := filepath.Join(t.TempDir(), "taken.away")
	if err := os.Link(cut.File, moved); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{cut.File, moved} {
		run(t, 0, []string{"1 frames, 1 records", "nothing is damaged"}, "check", path)
		run(t, 0, []string{" set "}, "dump", path)
		run(t, 2, []string{"tail of a log"}, "dump", "--commands", path)
	}
	flipAt(t, cut.File, 100)
	run(t, 1, []string{"PROBLEM", "at byte 64"}, "check", cut.File)
	run(t, 1, []string{"corrupt file"}, "dump", cut.File)

	// A torn tail: garbage behind the last frame.
	dir, _ = newDir(t)
	segments, err := logfile.Segments(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	last := segments[len(segments)-1]
	b, err := os.ReadFile(last.Path)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[len(strings.TrimRight(string(b), "\x00")):], "garbage")
	if err := os.WriteFile(last.Path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	store, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	said := store.Admin().Snapshots().RecoveredTorn
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	torn, err := filepath.Glob(filepath.Join(dir, "torn-*.aof"))
	if err != nil || len(torn) != 1 || !strings.Contains(said, torn[0]) {
		t.Fatalf("%q, %v; said %s", torn, err, said)
	}
	run(t, 0, []string{"torn tail"}, "check", torn[0])
	run(t, 0, []string{filepath.Base(torn[0]), "the torn tail of a start"}, "check", dir)
}

// TestDamagedTail damages the end of a directory that was ended cleanly: no tool says that all is well, and a repair
// that only tells what it would do changes nothing.
func TestDamagedTail(t *testing.T) {
	dir, _ := newDir(t)
	segments, err := logfile.Segments(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	last := segments[len(segments)-1].Path
	place := filepath.Join(t.TempDir(), "place")
	run(t, 0, nil, "backup", dir, place)
	flipAt(t, last, 100)
	run(t, 1, []string{"PROBLEM", last}, "check", dir)
	run(t, 1, []string{last}, "backup", dir, place)
	run(t, 1, []string{last}, "dump", dir)
	run(t, 0, []string{"dry run", "LOST: the log was durable up to offset", "nothing was changed"}, "repair", "--dry-run", dir)
	run(t, 1, []string{"PROBLEM", last}, "check", dir)
	run(t, 0, []string{"LOST: the log was durable up to offset", "ok: a server starts"}, "repair", dir)
	run(t, 0, nil, "check", dir)
}

// TestDrillNames: the output of a drill names no directory that it removes, and a backup of damaged log is no good
// one.
func TestDrillNames(t *testing.T) {
	dir, _ := newDir(t)
	scratch, place := t.TempDir(), filepath.Join(t.TempDir(), "place")
	run(t, 0, nil, "backup", dir, place)
	if said := run(t, 0, []string{"can be restored: backup "}, "drill", place, "--scratch", scratch); strings.Contains(said, scratch) {
		t.Errorf("it said %s", said)
	}
	for range 2 { // the log behind a snapshot that is not the last is only for restores
		store, err := counter.Open(dir, counter.Options{Manual: true, RetainBytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Incr("7.c", 1); err != nil {
			t.Fatal(err)
		}
		if err := store.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	segments, err := logfile.Segments(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	flipAt(t, segments[0].Path, 100)
	run(t, 1, []string{"PROBLEM", filepath.Base(segments[0].Path)}, "backup", dir, place)
	said := run(t, 1, []string{"PROBLEM", "log/" + filepath.Base(segments[0].Path)}, "drill", place, "--scratch", scratch)
	if strings.Contains(said, scratch) || strings.Contains(said, "can be restored") {
		t.Errorf("it said %s", said)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBackupsOfTwo: one store's --keep leaves another's backups in the place, and a restore asks which store is meant.
func TestBackupsOfTwo(t *testing.T) {
	a, _ := newDir(t)
	b, _ := newDir(t)
	place := filepath.Join(t.TempDir(), "place")
	run(t, 0, nil, "backup", a, place)
	run(t, 0, []string{"backups of another store too", a}, "backup", b, place, "--keep", "1")
	if said := run(t, 0, []string{a, b}, "backups", place); strings.Count(said, "to offset") != 2 {
		t.Errorf("it said %s", said)
	}
	out := filepath.Join(t.TempDir(), "out")
	run(t, 2, []string{"backups of 2 stores", "--backup", a, b}, "restore", place, "--out", out)
	run(t, 0, nil, "drill", place)
}

// TestRepairOfNode repairs the directory of a node of a cluster: it lacks acknowledged changes, and must not become
// primary while others have them.
func TestRepairOfNode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	open := func() *counter.Store {
		s, err := counter.Open(dir, counter.Options{Manual: true, Elected: true, AppendFsync: counter.SyncAlways})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(counter.Everywhere)
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	segments, err := logfile.Segments(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	flipAt(t, segments[len(segments)-1].Path, 100)
	const text = "becomes primary with this directory only when it has caught up"
	run(t, 0, []string{"nothing was changed", text}, "repair", "--dry-run", dir)
	run(t, 0, []string{"ok: a server starts", text}, "repair", dir)
	s = open()
	if !s.Replication().Behind() {
		t.Error("a directory that was repaired counts as one that has all")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
