// Scenario: a store is written as one archive, whole or damaged, and opened from it.

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestArchiveOfDamaged: an archive is made whatever has become of cold files: their posts are lost in it, no others. Of
// a damaged image there is none until it is written anew, by itself.
func TestArchiveOfDamaged(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, how := range kinds("page", "header", "end", "missing", "image", "page EIO", "last page EIO", "image EIO") {
		t.Run(how, func(t *testing.T) {
			dir, s, mids, cold := coldDir(t, 24_000)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			disk := &badSectors{FS: vfs.OS()}
			s, err := Open(dir, Options{FS: disk, Manual: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			young := fmt.Sprintf("%d.cntrn", mids[len(mids)-1])
			if err := s.Set(young, 5); err != nil {
				t.Fatal(err)
			}
			switch how {
			case "page EIO":
				disk.fail(cold, 12_000, 18_000)
			case "last page EIO":
				disk.fail(cold, fileSize(t, cold)-10, fileSize(t, cold))
			case "image EIO":
				disk.fail(newestImage(t, dir), 4096, 8192)
			case "page":
				flip(t, cold, 10_000)
			case "header":
				flip(t, cold, 20)
			case "end":
				err = os.Truncate(cold, fileSize(t, cold)/2+1)
			case "missing":
				err = os.Remove(cold)
			case "image":
				flip(t, newestImage(t, dir), 1000)
			}
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			a, err := s.Admin().Archive()
			image := strings.HasPrefix(how, "image")
			if image {
				if !snapfile.Unreadable(err) {
					t.Fatalf("got %v, want damage", err)
				}
				for err != nil {
					if err = s.Snapshot(); errors.Is(err, ErrBusy) {
						continue // it was begun already
					}
					if err != nil {
						t.Fatal(err)
					}
					a, err = s.Admin().Archive()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := a.WriteTo(&b); err != nil || n != a.Size() {
				t.Fatalf("%d of %d bytes: %v", n, a.Size(), err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "a.archive")
			if err := os.WriteFile(path, b.Bytes(), 0o640); err != nil {
				t.Fatal(err)
			}
			archive, err := archive.Open(vfs.OS(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			opened, err := Open(path, Options{FS: vfs.NewView(archive, nil), Manual: true})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			lost := 0
			for i, mid := range mids {
				if !*long && i%10 > 0 { // a page has more than a thousand posts
					continue
				}
				key := fmt.Sprintf("%d.cntrn", mid)
				got, found, err := opened.Get(key)
				want, _, werr := s.Get(key)
				switch {
				case errors.Is(err, block.ErrCold) && !image:
					lost++
				case err != nil || !found || werr == nil && got != want:
					t.Fatalf("%d: got %d, %v, %v, want %d, %v", i, got, found, err, want, werr)
				}
			}
			if (lost > 0) == image || lost > len(mids)*9/10 {
				t.Errorf("%d posts are lost", lost)
			}
			if v, _, err := opened.Get(young); v != 5 || err != nil {
				t.Errorf("a post in memory: got %d, %v", v, err)
			}
		})
	}
}

// badSectors is a file system whose disk cannot read a range of one file. Reads that begin before it are short, as the
// kernel's are.
type badSectors struct {
	vfs.FS
	mu     sync.Mutex
	path   string
	lo, hi int64
}

func (d *badSectors) fail(path string, lo, hi int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.path, d.lo, d.hi = path, lo, hi
}

func (d *badSectors) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &badFile{f, d, name}, nil
}

type badFile struct {
	vfs.File
	disk *badSectors
	name string
}

func (f *badFile) ReadAt(b []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	lo, hi, bad := f.disk.lo, f.disk.hi, f.disk.path == f.name
	f.disk.mu.Unlock()
	if !bad || off >= hi || off+int64(len(b)) <= lo {
		return f.File.ReadAt(b, off)
	}
	n := 0
	if off < lo {
		var err error
		if n, err = f.File.ReadAt(b[:lo-off], off); err != nil {
			return n, err
		}
	}
	return n, &vfs.IOError{Op: "read", Name: f.name, Off: off, Want: len(b), Done: n, Err: syscall.EIO}
}
