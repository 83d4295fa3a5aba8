package durability

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestDurableErrors makes system calls of the running server fail. Writes must be refused, or be answered as uncertain,
// reads must go on, all must be well soon after the disk is, without a restart, and nothing acknowledged may be lost
// then by a kill.
func TestDurableErrors(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, c := range []struct{ policy, calls, fault string }{
		{"always", "fdatasync", "error=EIO"},
		{"always", "pwrite64", "error=ENOSPC"},
		{"everysec", "fdatasync", "error=EIO"},
		{"everysec", "pwrite64", "error=EIO"},
		{"everysec", "pwrite64,fallocate,fdatasync", "error=ENOSPC"},
		{"always", "pwrite64,fallocate,fdatasync,fsync,rename,renameat,unlinkat,ftruncate", "error=EROFS"},
		{"no", "pwrite64", "retval=0"},                // nothing is written, and no error told
		{"always", "fdatasync", "error=EIO:when=3+5"}, // now and then only: it may heal unnoticed
	} {
		t.Run(strings.ReplaceAll(c.policy+" "+c.calls+" "+c.fault, ",", "+"), func(t *testing.T) {
			r, _ := harness.Random(t)
			dir := t.TempDir()
			w := harness.NewWriters(4, 20, 4)
			s := harness.StartIn(t, dir, "--appendfsync", c.policy)
			harness.SeedSchema(t, s.Dial(t))
			wait := w.Begin(t, s, r, "MISCONF", "UNCERTAIN")
			control := s.Dial(t)
			control.Want("+OK\r\n", "SET", "77.cntcm", "5")
			in, ok := s.Inject(c.calls, c.fault)
			if !ok {
				s.Kill()
				wait()
				return
			}
			if !strings.Contains(c.fault, "when") {
				harness.WaitUntil(t, "writes are refused", func() bool {
					v := control.Do("INCR", "78.cntcm")
					return v.Kind == '-' && (strings.HasPrefix(v.Text, "MISCONF ") || c.policy == "always" && strings.HasPrefix(v.Text, "UNCERTAIN "))
				})
				for range 20 {
					// Under always nobody may be shown what a crash could take back. This one it could not.
					control.Want(harness.BulkOf("5"), "GET", "77.cntcm")
				}
				harness.WaitUntil(t, "aof_last_write_status is err", func() bool {
					return harness.InfoValue(t, control, "persistence", "aof_last_write_status") == "err"
				})
				if v := control.Do("SAVE"); v.Kind != '-' {
					t.Errorf("SAVE answered %q on a disk that fails", v.Raw)
				}
			}
			in.End()
			harness.WaitUntil(t, "writes go on", func() bool { return control.Do("INCR", "79.cntcm").Kind == ':' })
			harness.WaitUntil(t, "aof_last_write_status is ok", func() bool { return harness.InfoValue(t, control, "persistence", "aof_last_write_status") == "ok" })
			for i := range 50 {
				control.Want("+OK\r\n", "SET", strconv.Itoa(80+i)+".cntcm", "1")
			}
			control.Save()
			s.Kill()
			wait()
			s.CheckLog()
			s = harness.StartIn(t, dir)
			w.Verify(t, s)
			control = s.Dial(t)
			control.Want(harness.BulkOf("5"), "GET", "77.cntcm")
			for i := range 50 {
				control.Want(harness.BulkOf("1"), "GET", strconv.Itoa(80+i)+".cntcm")
			}
			s.Stop()
			harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
		})
	}
}

// TestDurableDiskFull fills the disk, a small one of its own. Writes are refused and reads go on until there is room
// again; no restart is needed, and nothing acknowledged is lost.
func TestDurableDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		harness.LeftOut(t, fmt.Sprintf("a small disk cannot be mounted: %v", err))
		return
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	r, _ := harness.Random(t)
	dir := filepath.Join(disk, "data")
	ballast := filepath.Join(disk, "ballast")
	w := harness.NewWriters(4, 20, 4)
	flood := []string{"MSET"} // on a busy machine the writers alone need minutes to fill a log segment that has its room
	for i := range 1000 {
		flood = append(flood, strconv.Itoa(5_000_000+i)+".cntcm", "1")
	}
	for cycle := range 3 {
		policy := []string{"everysec", "always", "no"}[cycle]
		s := harness.StartIn(t, dir, "--appendfsync", policy)
		control := s.Dial(t)
		if cycle == 0 {
			harness.SeedSchema(t, control)
		}
		w.Verify(t, s)
		control.Want("+OK\r\n", "SET", "77.cntcm", strconv.Itoa(cycle))
		wait := w.Begin(t, s, r, "MISCONF", "UNCERTAIN")
		fill(t, ballast)
		harness.WaitUntil(t, "writes are refused", func() bool {
			v := control.Do(flood...)
			return v.Kind == '-' && (strings.HasPrefix(v.Text, "MISCONF ") || policy == "always" && strings.HasPrefix(v.Text, "UNCERTAIN "))
		})
		for range 20 {
			control.Want(harness.BulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
		}
		if cycle > 0 { // a start on the full disk
			s.Kill()
			wait()
			s.CheckLog()
			fill(t, ballast+"2")
			s = harness.StartIn(t, dir, "--appendfsync", policy)
			control = s.Dial(t)
			harness.WaitUntil(t, "the start ends", func() bool { return harness.InfoValue(t, control, "persistence", "loading") == "0" })
			control.Want(harness.BulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
			if v := control.Do("SET", "78.cntcm", "1"); v.Kind != '-' || !strings.HasPrefix(v.Text, "MISCONF ") {
				t.Errorf("SET answered %q after a start on a full disk", v.Raw)
			}
			wait = func() {}
			if err := os.Remove(ballast + "2"); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		harness.WaitUntil(t, "writes go on", func() bool { return control.Do("INCR", "79.cntcm").Kind == ':' })
		control.Want("+OK\r\n", "SET", "80.cntcm", strconv.Itoa(cycle))
		s.Kill()
		wait()
		s.CheckLog()
		s = harness.StartIn(t, dir)
		w.Verify(t, s)
		control = s.Dial(t)
		control.Want(harness.BulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
		control.Want(harness.BulkOf(strconv.Itoa(cycle)), "GET", "80.cntcm")
		control.Save()
		control.Save() // the log before it is dropped: room for the next cycle
		s.Stop()
	}
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

// TestDurableDirectoryGone takes the data directory away from the running server: it notices, refuses changes and goes
// on with reads. Put back, it serves on and has lost nothing; the same with LOCK alone. Deleted, it refuses for good:
// what was acknowledged into nothing would be lost.
func TestDurableDirectoryGone(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := filepath.Join(t.TempDir(), "data")
	away := dir + ".away"
	s := harness.StartIn(t, dir, "--appendfsync", "always")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want("+OK\r\n", "SET", "77.cntcm", "5")
	refused := func(what string) {
		t.Helper()
		harness.WaitUntil(t, what+": changes are refused", func() bool {
			v := c.Do("INCR", "78.cntcm")
			return v.Kind == '-' && strings.HasPrefix(v.Text, "MISCONF ") && strings.Contains(v.Text, dir)
		})
		c.Want(harness.BulkOf("5"), "GET", "77.cntcm")
		if v := c.Do("SAVE"); v.Kind != '-' {
			t.Errorf("%s: SAVE answered %q", what, v.Raw)
		}
	}
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	refused("moved away")
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	harness.WaitUntil(t, "writes go on", func() bool { return c.Do("INCR", "79.cntcm").Kind == ':' })
	c.Save()
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	harness.WaitUntil(t, "LOCK is back", func() bool { _, err := os.Stat(filepath.Join(dir, "LOCK")); return err == nil })
	// The log may refuse writes only after LOCK is back, for a second: a change before that says nothing of the next one.
	harness.WaitUntil(t, "writes go on", func() bool { return c.Do("SET", "80.cntcm", "6").Raw == "+OK\r\n" })
	s.Kill()
	s = harness.StartIn(t, dir, "--appendfsync", "always")
	c = s.Dial(t)
	c.Want(harness.BulkOf("5"), "GET", "77.cntcm")
	c.Want(harness.BulkOf("6"), "GET", "80.cntcm")
	// The server makes a LOCK that is gone, and a segment that is gone, again while it still has the directory: rm -r then
	// says "Directory not empty", and succeeds if it is repeated.
	harness.WaitUntil(t, "the directory is deleted", func() bool { return os.RemoveAll(dir) == nil })
	refused("deleted")
	s.Kill()
}

// fill writes a file until the disk is full.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n >= 512; {
		if _, err := f.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
}
