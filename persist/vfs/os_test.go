package vfs

import (
	"bytes"
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

// TestUncache: a file has its content afterwards, synced or not. There is a call for each MB, until one returns an error.
func TestUncache(t *testing.T) {
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	want := make([]byte, 5<<19)
	for i := range want {
		want[i] = byte(i % 251)
	}
	_, err = f.WriteAt(want[:2<<20], 0)
	must(t, err)
	must(t, f.Sync())
	_, err = f.WriteAt(want[2<<20:], 2<<20)
	must(t, err)
	calls := 0
	Uncache(f, int64(len(want)), func() error { calls++; return nil })
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	got := make([]byte, len(want))
	_, err = f.ReadAt(got, 0)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("the content is another")
	}
	calls = 0
	Uncache(f, int64(len(want)), func() error { calls++; return syscall.EINTR })
	if calls != 1 {
		t.Errorf("%d calls behind an error, want 1", calls)
	}
	memory, err := NewSim().Create("f")
	must(t, err)
	Uncache(memory, 1, func() error { t.Error("called for a file of memory"); return nil })
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
