package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/counterd/counterd/internal/testkit/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testSeed returns the seed of a random test: see package seed.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	return seed.Of(t)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// put makes a file with the given content, neither synced nor its directory synced.
func put(t testing.TB, fsys FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, f.Close())
}

// get returns the content of a file, or the error.
func get(fsys FS, name string) (string, error) {
	data, err := ReadFile(fsys, name, 1<<30)
	return string(data), err
}

func wantContent(t testing.TB, fsys FS, name, want string) {
	t.Helper()
	got, err := get(fsys, name)
	must(t, err)
	if got != want {
		t.Fatalf("%s has %.80q (%d bytes), want %.80q (%d bytes)", name, got, len(got), want, len(want))
	}
}

func wantList(t testing.TB, fsys FS, dir string, want ...string) {
	t.Helper()
	got, err := fsys.List(dir)
	must(t, err)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s has %v, want %v", dir, got, want)
	}
}

// eachFS runs a test on every implementation, with an empty directory.
func eachFS(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("Sim", func(t *testing.T) {
		s := NewSim()
		must(t, s.MkdirAll("/data"))
		test(t, s, "/data")
		if leaks := s.Leaks(); len(leaks) > 0 {
			t.Errorf("left open: %v", leaks)
		}
	})
	t.Run("Faulty", func(t *testing.T) {
		s := NewSim()
		must(t, s.MkdirAll("data"))
		f := NewFaulty(s)
		f.Inject(Rule{Glob: "no such file", Every: 1, Err: syscall.EIO})
		test(t, f, "data")
		if f.Fired() != 0 {
			t.Errorf("fired: %v", f.Faults())
		}
	})
}

func TestFileReadWrite(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		if f.Name() != name {
			t.Errorf("name %q, want %q", f.Name(), name)
		}
		big := bytes.Repeat([]byte("0123456789"), 300)
		for _, off := range []int64{0, 5000, 2990} { // a hole, then filled and overwritten at both ends
			n, err := f.WriteAt(big, off)
			must(t, err)
			if n != len(big) {
				t.Fatalf("wrote %d, want %d", n, len(big))
			}
		}
		want := append(append([]byte{}, big[:2990]...), big...)
		want = append(want, big[990:]...)
		wantContent(t, fsys, name, string(want))

		p := make([]byte, 100)
		if n, err := f.ReadAt(p, int64(len(want))-40); n != 40 || err != io.EOF {
			t.Errorf("read over the end: %d, %v, want 40, EOF", n, err)
		}
		if n, err := f.ReadAt(p, 1<<40); n != 0 || err != io.EOF {
			t.Errorf("read behind the end: %d, %v, want 0, EOF", n, err)
		}
		if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
			t.Errorf("empty read: %d, %v", n, err)
		}
		if n, err := f.WriteAt(nil, 1<<20); n != 0 || err != nil {
			t.Errorf("empty write: %d, %v", n, err)
		}
		size, err := f.Size()
		must(t, err)
		if size != int64(len(want)) {
			t.Errorf("size %d, want %d", size, len(want))
		}
		info, err := fsys.Stat(name)
		must(t, err)
		if info.Size() != size || info.Name() != "f" || info.IsDir() || info.Mode()&^fileMode != 0 {
			t.Errorf("stat %v %v %v %v", info.Name(), info.Size(), info.IsDir(), info.Mode())
		}
		must(t, f.Sync())
		must(t, f.Close())
	})
}

func TestFileErrors(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		put(t, fsys, name, "abc")
		f, err := fsys.Open(name)
		must(t, err)
		_, err = f.WriteAt([]byte("xy"), 7)
		wantErr(t, err, syscall.EBADF)
		var ioErr *IOError
		if !errors.As(err, &ioErr) || *ioErr != (IOError{"write", name, 7, 2, 0, syscall.EBADF}) {
			t.Errorf("got %#v", err)
		}
		_, err = f.ReadAt(make([]byte, 1), -1)
		wantErr(t, err, syscall.EINVAL)
		wantErr(t, f.Truncate(1), syscall.EINVAL)
		wantErr(t, f.Preallocate(10), syscall.EBADF)
		wantErr(t, f.Preallocate(-1), syscall.EINVAL)
		must(t, f.Close())

		wantErr(t, f.Close(), fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = f.WriteAt([]byte("x"), 0)
		wantErr(t, err, fs.ErrClosed)
		_, err = f.Size()
		wantErr(t, err, fs.ErrClosed)
		_, _, err = f.Map(1)
		wantErr(t, err, fs.ErrClosed)
		wantErr(t, f.Sync(), fs.ErrClosed)
		wantErr(t, f.Truncate(0), fs.ErrClosed)
		wantErr(t, f.Preallocate(9), fs.ErrClosed)
		wantContent(t, fsys, name, "abc")

		f, err = fsys.OpenRW(name)
		must(t, err)
		_, err = f.WriteAt([]byte("x"), -1)
		wantErr(t, err, syscall.EINVAL)
		wantErr(t, f.Truncate(-1), syscall.EINVAL)
		must(t, f.Close())
		wantContent(t, fsys, name, "abc")
	})
}

func TestTruncatePreallocate(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		defer f.Close()
		full := bytes.Repeat([]byte("x"), 2000)
		_, err = f.WriteAt(full, 0)
		must(t, err)
		must(t, f.Truncate(700))
		must(t, f.Truncate(1500))
		want := append(bytes.Repeat([]byte("x"), 700), make([]byte, 800)...)
		wantContent(t, fsys, name, string(want))
		must(t, f.Preallocate(1000)) // smaller: no change
		must(t, f.Preallocate(0))
		wantContent(t, fsys, name, string(want))
		must(t, f.Preallocate(1<<20))
		want = append(want, make([]byte, 1<<20-1500)...)
		wantContent(t, fsys, name, string(want))
		must(t, f.Truncate(0))
		wantContent(t, fsys, name, "")
	})
}

func TestNames(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		j := func(name string) string { return filepath.Join(dir, name) }
		must(t, fsys.MkdirAll(j("d/e")))
		must(t, fsys.MkdirAll(j("d/e")))
		put(t, fsys, j("b"), "b")
		put(t, fsys, j("a"), "a")
		wantList(t, fsys, dir, "a", "b", "d")
		wantList(t, fsys, j("d/e"))
		info, err := fsys.Stat(j("d"))
		must(t, err)
		if !info.IsDir() || info.Mode().Perm()&^dirMode != 0 {
			t.Errorf("mode of a directory: %v", info.Mode())
		}

		_, err = fsys.Create(j("a"))
		wantErr(t, err, fs.ErrExist)
		_, err = fsys.Create(j("d"))
		wantErr(t, err, fs.ErrExist)
		_, err = fsys.Create(j("x/a"))
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Create(j("a/x"))
		wantErr(t, err, syscall.ENOTDIR)
		_, err = fsys.Create("")
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Open(j("x"))
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.Open(j("d"))
		wantErr(t, err, syscall.EISDIR)
		_, err = fsys.OpenRW(j("d"))
		wantErr(t, err, syscall.EISDIR)
		_, err = fsys.Stat(j("x"))
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.List(j("x"))
		wantErr(t, err, fs.ErrNotExist)
		_, err = fsys.List(j("a"))
		wantErr(t, err, syscall.ENOTDIR)
		wantErr(t, fsys.MkdirAll(j("a/x")), syscall.ENOTDIR)
		wantErr(t, fsys.Remove(j("x")), fs.ErrNotExist)
		wantErr(t, fsys.Remove(j("d")), syscall.ENOTEMPTY)
		wantErr(t, fsys.SyncDir(j("x")), fs.ErrNotExist)
		wantErr(t, fsys.SyncDir(j("a")), syscall.ENOTDIR)
		wantErr(t, fsys.Rename(j("x"), j("y")), fs.ErrNotExist)
		wantErr(t, fsys.Rename(j("a"), j("d")), fs.ErrExist)
		wantErr(t, fsys.Rename(j("d"), j("a")), syscall.ENOTDIR)
		wantErr(t, fsys.Rename(j("a"), j("d/a")), syscall.EXDEV)
		wantList(t, fsys, dir, "a", "b", "d")

		must(t, fsys.Rename(j("a"), j("a")))
		must(t, fsys.Rename(j("a"), j("b")))
		wantContent(t, fsys, j("b"), "a")
		must(t, fsys.Rename(j("d"), j("c")))
		must(t, fsys.Remove(j("c/e")))
		must(t, fsys.SyncDir(j("c")))
		must(t, fsys.Remove(j("c")))
		wantList(t, fsys, dir, "b")
		must(t, fsys.SyncDir(dir))
	})
}

// TestRemovedFile: open and mapped files outlive their name.
func TestRemovedFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		put(t, fsys, name, "old")
		f, err := fsys.OpenRW(name)
		must(t, err)
		data, unmap, err := f.Map(3)
		must(t, err)
		must(t, fsys.Remove(name))
		put(t, fsys, name, "new")
		_, err = f.WriteAt([]byte("er"), 3)
		must(t, err)
		p := make([]byte, 5)
		_, err = f.ReadAt(p, 0)
		must(t, err)
		must(t, f.Close())
		if string(p) != "older" || string(data) != "old" {
			t.Errorf("read %q, mapped %q", p, data)
		}
		must(t, unmap())
		wantContent(t, fsys, name, "new")
	})
}

func TestMap(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		want := bytes.Repeat([]byte("0123456789abcdef"), 1000)
		put(t, fsys, name, string(want))
		f, err := fsys.Open(name)
		must(t, err)
		defer f.Close()
		for _, size := range []int{0, 1, 4096, 5000, len(want)} {
			data, unmap, err := f.Map(int64(size))
			must(t, err)
			if !bytes.Equal(data, want[:size]) {
				t.Errorf("map of %d bytes differs", size)
			}
			must(t, unmap())
		}
		_, _, err = f.Map(int64(len(want)) + 1)
		wantErr(t, err, io.ErrUnexpectedEOF)
		_, _, err = f.Map(-1)
		wantErr(t, err, syscall.EINVAL)
	})
}

func TestLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		l, err := fsys.Lock(name)
		must(t, err)
		_, err = fsys.Lock(name)
		wantErr(t, err, ErrLocked)
		f, err := fsys.Open(name) // an unrelated descriptor does not drop it
		must(t, err)
		must(t, f.Close())
		_, err = fsys.Lock(name)
		wantErr(t, err, ErrLocked)
		must(t, l.Close())
		wantErr(t, l.Close(), fs.ErrClosed)
		l, err = fsys.Lock(name)
		must(t, err)
		must(t, l.Close())
		_, err = fsys.Lock(dir)
		wantErr(t, err, syscall.EISDIR)
		_, err = fsys.Lock(filepath.Join(dir, "x", "LOCK"))
		wantErr(t, err, fs.ErrNotExist)
	})
}

// TestConcurrent: disjoint reads and writes and syncs of one file, and calls on the FS, under the race detector.
func TestConcurrent(t *testing.T) {
	const workers, rounds, width = 4, 30, 700
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				p, q := bytes.Repeat([]byte{'a' + byte(w)}, width), make([]byte, width)
				own := filepath.Join(dir, fmt.Sprint("own", w))
				for r := range rounds {
					off := int64(r*workers+w) * width
					_, err1 := f.WriteAt(p, off)
					_, err2 := f.ReadAt(q, off)
					err3 := f.Sync()
					err4 := WriteFileAtomic(fsys, own, q)
					if err := errors.Join(err1, err2, err3, err4); err != nil || !bytes.Equal(p, q) {
						t.Errorf("worker %d round %d: %v", w, r, err)
						return
					}
				}
			})
		}
		wg.Wait()
		must(t, f.Close())
		wantList(t, fsys, dir, "f", "own0", "own1", "own2", "own3")
	})
}
