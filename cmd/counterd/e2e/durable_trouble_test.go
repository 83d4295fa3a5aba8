package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
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
			r, _ := random(t)
			dir := t.TempDir()
			w := newWriters(4, 20, 4)
			s := startIn(t, dir, "--appendfsync", c.policy)
			seedSchema(t, s.dial(t))
			wait := w.begin(t, s, r, "MISCONF", "UNCERTAIN")
			control := s.dial(t)
			control.want("+OK\r\n", "SET", "77.cntcm", "5")
			in, ok := s.inject(c.calls, c.fault)
			if !ok {
				s.kill()
				wait()
				return
			}
			if !strings.Contains(c.fault, "when") {
				waitUntil(t, "writes are refused", func() bool {
					v := control.do("INCR", "78.cntcm")
					return v.Kind == '-' && (strings.HasPrefix(v.Text, "MISCONF ") || c.policy == "always" && strings.HasPrefix(v.Text, "UNCERTAIN "))
				})
				for range 20 {
					// Under always nobody may be shown what a crash could take back. This one it could not.
					control.want(bulkOf("5"), "GET", "77.cntcm")
				}
				waitUntil(t, "aof_last_write_status is err", func() bool {
					return infoValue(t, control, "persistence", "aof_last_write_status") == "err"
				})
				if v := control.do("SAVE"); v.Kind != '-' {
					t.Errorf("SAVE answered %q on a disk that fails", v.Raw)
				}
			}
			in.end()
			waitUntil(t, "writes go on", func() bool { return control.do("INCR", "79.cntcm").Kind == ':' })
			waitUntil(t, "aof_last_write_status is ok", func() bool { return infoValue(t, control, "persistence", "aof_last_write_status") == "ok" })
			for i := range 50 {
				control.want("+OK\r\n", "SET", strconv.Itoa(80+i)+".cntcm", "1")
			}
			control.want("+OK\r\n", "SAVE")
			s.kill()
			wait()
			s.checkLog()
			s = startIn(t, dir)
			w.verify(t, s)
			control = s.dial(t)
			control.want(bulkOf("5"), "GET", "77.cntcm")
			for i := range 50 {
				control.want(bulkOf("1"), "GET", strconv.Itoa(80+i)+".cntcm")
			}
			s.stop()
			wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
		})
	}
}

// TestDurableDiskFull fills the disk, a small one of its own. Writes are refused and reads go on until there is room
// again; no restart is needed, and nothing acknowledged is lost.
func TestDurableDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		leftOut(t, fmt.Sprintf("a small disk cannot be mounted: %v", err))
		return
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	r, _ := random(t)
	dir := filepath.Join(disk, "data")
	ballast := filepath.Join(disk, "ballast")
	w := newWriters(4, 20, 4)
	for cycle := range 3 {
		policy := []string{"everysec", "always", "no"}[cycle]
		s := startIn(t, dir, "--appendfsync", policy)
		control := s.dial(t)
		if cycle == 0 {
			seedSchema(t, control)
		}
		w.verify(t, s)
		control.want("+OK\r\n", "SET", "77.cntcm", strconv.Itoa(cycle))
		wait := w.begin(t, s, r, "MISCONF", "UNCERTAIN")
		fill(t, ballast)
		waitUntil(t, "writes are refused", func() bool {
			v := control.do("SET", "78.cntcm", "1")
			return v.Kind == '-' && (strings.HasPrefix(v.Text, "MISCONF ") || policy == "always" && strings.HasPrefix(v.Text, "UNCERTAIN "))
		})
		for range 20 {
			control.want(bulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
		}
		if cycle > 0 { // a start on the full disk
			s.kill()
			wait()
			s.checkLog()
			fill(t, ballast+"2")
			s = startIn(t, dir, "--appendfsync", policy)
			control = s.dial(t)
			waitUntil(t, "the start ends", func() bool { return infoValue(t, control, "persistence", "loading") == "0" })
			control.want(bulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
			if v := control.do("SET", "78.cntcm", "1"); v.Kind != '-' || !strings.HasPrefix(v.Text, "MISCONF ") {
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
		waitUntil(t, "writes go on", func() bool { return control.do("INCR", "79.cntcm").Kind == ':' })
		control.want("+OK\r\n", "SET", "80.cntcm", strconv.Itoa(cycle))
		s.kill()
		wait()
		s.checkLog()
		s = startIn(t, dir)
		w.verify(t, s)
		control = s.dial(t)
		control.want(bulkOf(strconv.Itoa(cycle)), "GET", "77.cntcm")
		control.want(bulkOf(strconv.Itoa(cycle)), "GET", "80.cntcm")
		control.want("+OK\r\n", "SAVE")
		control.want("+OK\r\n", "SAVE") // the log before it is dropped: room for the next cycle
		s.stop()
	}
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

// TestDurableDirectoryGone takes the data directory away from the running server: it notices, refuses changes and goes
// on with reads. Put back, it serves on and has lost nothing; the same with LOCK alone. Deleted, it refuses for good:
// what was acknowledged into nothing would be lost.
func TestDurableDirectoryGone(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := filepath.Join(t.TempDir(), "data")
	away := dir + ".away"
	s := startIn(t, dir, "--appendfsync", "always")
	c := s.dial(t)
	seedSchema(t, c)
	c.want("+OK\r\n", "SET", "77.cntcm", "5")
	refused := func(what string) {
		t.Helper()
		waitUntil(t, what+": changes are refused", func() bool {
			v := c.do("INCR", "78.cntcm")
			return v.Kind == '-' && strings.HasPrefix(v.Text, "MISCONF ") && strings.Contains(v.Text, dir)
		})
		c.want(bulkOf("5"), "GET", "77.cntcm")
		if v := c.do("SAVE"); v.Kind != '-' {
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
	waitUntil(t, "writes go on", func() bool { return c.do("INCR", "79.cntcm").Kind == ':' })
	c.want("+OK\r\n", "SAVE")
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "LOCK is back", func() bool { _, err := os.Stat(filepath.Join(dir, "LOCK")); return err == nil })
	waitUntil(t, "writes go on", func() bool { return c.do("INCR", "79.cntcm").Kind == ':' })
	c.want("+OK\r\n", "SET", "80.cntcm", "6")
	s.kill()
	s = startIn(t, dir, "--appendfsync", "always")
	c = s.dial(t)
	c.want(bulkOf("5"), "GET", "77.cntcm")
	c.want(bulkOf("6"), "GET", "80.cntcm")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	refused("deleted")
	s.kill()
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
