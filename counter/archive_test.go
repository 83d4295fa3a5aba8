package counter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// TestArchiveOfDamaged: an archive is made whatever has become of cold files: their posts are lost in it, no others. Of a damaged image there is none until it
// is written anew, by itself.
func TestArchiveOfDamaged(t *testing.T) {
	for _, how := range []string{"page", "header", "end", "missing", "image"} {
		t.Run(how, func(t *testing.T) {
			dir, s, mids, cold := coldDir(t, 100_000)
			defer s.Close()
			young := fmt.Sprintf("%d.cntrn", mids[len(mids)-1])
			if err := s.Set(young, 5); err != nil {
				t.Fatal(err)
			}
			var err error
			switch how {
			case "page":
				flip(t, cold, 10_000)
			case "header":
				flip(t, cold, 20)
			case "end":
				err = os.Truncate(cold, 50_001)
			case "missing":
				err = os.Remove(cold)
			case "image":
				flip(t, newestImage(t, dir), 1000)
			}
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			a, err := s.Archive()
			if how == "image" {
				if !errors.Is(err, persist.ErrCorrupt) {
					t.Fatalf("got %v, want ErrCorrupt", err)
				}
				for err != nil {
					if err = s.Snapshot(); errors.Is(err, ErrBusy) {
						continue // it was begun already
					}
					if err != nil {
						t.Fatal(err)
					}
					a, err = s.Archive()
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
			archive, err := persist.OpenArchive(vfs.OS(), path)
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
				key := fmt.Sprintf("%d.cntrn", mid)
				got, found, err := opened.Get(key)
				want, _, werr := s.Get(key)
				switch {
				case errors.Is(err, ErrCold) && how != "image":
					lost++
				case err != nil || !found || werr == nil && got != want:
					t.Fatalf("%d: got %d, %v, %v, want %d, %v", i, got, found, err, want, werr)
				}
			}
			if (lost > 0) != (how != "image") || lost > 90_000 {
				t.Errorf("%d posts are lost", lost)
			}
			if v, _, err := opened.Get(young); v != 5 || err != nil {
				t.Errorf("a post in memory: got %d, %v", v, err)
			}
		})
	}
}
