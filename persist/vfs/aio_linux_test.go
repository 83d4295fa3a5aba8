package vfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParkedSync: a sync by AIO does what a plain one does, many at a time, and its errors come through.
func TestParkedSync(t *testing.T) {
	dir := t.TempDir()
	fsys := OS()
	var all sync.WaitGroup
	for range 12 { // more than idle contexts are kept
		all.Go(func() {
			f, err := os.CreateTemp(dir, "")
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for range 5 {
				if _, err := f.WriteString("some bytes"); err != nil {
					t.Error(err)
				}
				if err := syncParked(int(f.Fd()), iocbFdsync); err != nil && err != errNoAIO {
					t.Errorf("sync: got %v, want nil", err)
				}
			}
		})
	}
	all.Wait()
	idleContexts.mu.Lock()
	idle := len(idleContexts.list)
	idleContexts.mu.Unlock()
	if idle > mostIdleContexts {
		t.Errorf("got %d contexts kept, want at most %d", idle, mostIdleContexts)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := fdatasync(nil, int(w.Fd())); err != unix.EINVAL { // a pipe cannot be synced, by AIO or without
		t.Errorf("sync of a pipe: got %v, want EINVAL", err)
	}
	f, err := fsys.Create(filepath.Join(dir, "closed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("sync of a closed file: got %v, want os.ErrClosed", err)
	}
}

// TestSyncWithoutAIO: where the kernel forbids AIO, as a seccomp filter may, a sync is a plain call.
func TestSyncWithoutAIO(t *testing.T) {
	defer noAIO.Store(noAIO.Swap(true))
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("some bytes"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSync compares a sync of 4 KiB in a plain call with one by AIO.
func BenchmarkSync(b *testing.B) {
	for name, without := range map[string]bool{"fdatasync": true, "aio": false} {
		b.Run(name, func(b *testing.B) {
			defer noAIO.Store(noAIO.Swap(without))
			f, err := OS().Create(filepath.Join(b.TempDir(), "f"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.Preallocate(16 << 20); err != nil {
				b.Fatal(err)
			}
			page := make([]byte, 4<<10)
			at := int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(page, at%(16<<20)); err != nil {
					b.Fatal(err)
				}
				at += 4 << 10
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			runtime.KeepAlive(f)
		})
	}
}

// TestUnloadAll: pages of several mappings leave the process's memory by one call, where the kernel has that, and are read
// again.
func TestUnloadAll(t *testing.T) {
	var all [][]byte
	for i := range 3 {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, bytes.Repeat([]byte{byte(i + 1)}, 100<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := OS().Open(name)
		if err != nil {
			t.Fatal(err)
		}
		data, unmap, err := f.Map(100 << 10)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unmap(); err != nil {
				t.Error(err)
			}
		}()
		all = append(all, data)
	}
	if err := OS().(interface{ UnloadAll([][]byte) error }).UnloadAll(all); err != nil {
		t.Logf("this kernel has no such call: %v", err)
	}
	for i, data := range all {
		if data[0] != byte(i+1) || data[len(data)-1] != byte(i+1) {
			t.Errorf("mapping %d: got %d, %d, want %d", i, data[0], data[len(data)-1], i+1)
		}
	}
}
