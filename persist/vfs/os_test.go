package vfs

import (
	"errors"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOSNoAlloc: what runs for every group of commands allocates nothing.
func TestOSNoAlloc(t *testing.T) {
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	p := make([]byte, 512)
	allocs := testing.AllocsPerRun(20, func() {
		_, err1 := f.WriteAt(p, 0)
		_, err2 := f.ReadAt(p, 0)
		if err1 != nil || err2 != nil {
			t.Error(err1, err2)
		}
	})
	syncAllocs := testing.AllocsPerRun(2, func() { _ = f.Sync() })
	if allocs != 0 || syncAllocs != 0 && runtime.GOOS == "linux" {
		t.Errorf("%v allocations for a write and a read, %v for a sync", allocs, syncAllocs)
	}
}

// TestOSFileTooLarge meets a real error in the middle of a write, by the one limit that needs no file system of
// its own: the largest file size of a process. What was written before is told, and a failed Preallocate changes
// nothing.
func TestOSFileTooLarge(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS().Create(name)
	must(t, err)
	defer f.Close()

	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10_000, Max: old.Max}))
	n, werr := f.WriteAt(make([]byte, 20_000), 500)
	perr := f.Preallocate(20_000)
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))

	var ioErr *IOError
	if !errors.As(werr, &ioErr) || *ioErr != (IOError{"write", name, 500, 20_000, 9_500, syscall.EFBIG}) || n != 9_500 {
		t.Errorf("write: %d, %v", n, werr)
	}
	wantErr(t, perr, syscall.EFBIG)
	size, err := f.Size()
	must(t, err)
	if size != 10_000 {
		t.Errorf("size %d, want 10000", size)
	}
}
