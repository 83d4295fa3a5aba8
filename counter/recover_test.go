// Scenario: starts after crashes and from files that are damaged, missing or newer.

package counter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// newestImage returns the path of the image that stands furthest in the log.
func newestImage(t *testing.T, dir string) string {
	t.Helper()
	images, _ := filepath.Glob(filepath.Join(dir, "rdb", "*.hot"))
	if len(images) == 0 {
		t.Fatal("no images")
	}
	return slices.MaxFunc(images, func(a, b string) int {
		return cmp.Compare(fmt.Sprintf("%60s", filepath.Base(a)), fmt.Sprintf("%60s", filepath.Base(b)))
	})
}

// TestFallback: a snapshot that turned out bad at the start is no longer one: replicas and archives are given the good
// one, which the next snapshot keeps, so that the newest may be damaged again and again.
func TestFallback(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true}, seedScript)
	defer func() { s.Close() }()
	snapshot := func(v uint64) {
		t.Helper()
		if err := s.Set("5.cntrn", v); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	snapshot(1)
	snapshot(2)
	snapshot(3)
	for round := uint64(4); round < 8; round++ {
		newest := s.repl.Manifests()[0].Generation
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		path := newestImage(t, dir)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		flip(t, path, info.Size()/2)
		if s, err = Open(dir, Options{Manual: true}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if v, _, err := s.Get("5.cntrn"); v != round-1 || err != nil {
			t.Fatalf("round %d: got %d, %v", round, v, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("round %d: the bad image was removed before there is a better one: %v", round, err)
		}
		p, err := s.pins.PinSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		if p.Manifest.Generation == newest {
			t.Errorf("round %d: the bad snapshot %d is handed out", round, newest)
		}
		err = p.Manifest.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(vfs.OS(), dir, c, b) })
		if err != nil {
			t.Errorf("round %d: what is handed out: %v", round, err)
		}
		p.Release()
		snapshot(round)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: the bad image is still there: %v", round, err)
		}
		for _, m := range s.repl.Manifests() {
			if m.Generation == newest {
				t.Errorf("round %d: the bad snapshot %d was kept", round, newest)
			}
		}
	}
}

// TestUnreadableFiles: a disk that cannot read a file at the start is treated as if that were damaged: an image makes
// the snapshot before count, a cold file takes its own posts only. What an operator can set right refuses the start.
func TestUnreadableFiles(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir, s, mids, _ := coldDir(t, 24_000)
	key := func(i int) string { return fmt.Sprintf("%d.cntrn", mids[i]) }
	young := len(mids) - 1
	if err := s.Set(key(young), 77); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	image := filepath.Base(newestImage(t, dir))
	for _, c := range []struct {
		what   string
		rule   vfs.Rule
		opens  bool
		errors bool // of cold posts
	}{
		{"cold file, open", vfs.Rule{Ops: vfs.OpOpen, Glob: "*.cold", Every: 1, Err: syscall.EIO}, true, true},
		{"cold file, read", vfs.Rule{Ops: vfs.OpRead, Glob: "*.cold", Every: 1, Err: syscall.EIO}, true, true},
		{"cold file, map", vfs.Rule{Ops: vfs.OpMap, Glob: "*.cold", Every: 1, Err: syscall.EIO}, true, true},
		{"image, open", vfs.Rule{Ops: vfs.OpOpen, Glob: image, Every: 1, Err: syscall.EIO}, true, false},
		{"image, read", vfs.Rule{Ops: vfs.OpRead, Glob: image, Every: 1, Err: syscall.EIO}, true, false},
		{"image, rows", vfs.Rule{Ops: vfs.OpRead, Glob: image, Skip: 2, Every: 1, Err: syscall.EIO}, true, false}, // behind header and footer
		{"cold file, descriptors", vfs.Rule{Ops: vfs.OpOpen, Glob: "*.cold", Every: 1, Err: syscall.EMFILE}, false, false},
		{"cold file, permission", vfs.Rule{Ops: vfs.OpOpen, Glob: "*.cold", Every: 1, Err: syscall.EACCES}, false, false},
		{"cold file, memory", vfs.Rule{Ops: vfs.OpOpen, Glob: "*.cold", Every: 1, Err: syscall.ENOMEM}, false, false},
		{"image, descriptors", vfs.Rule{Ops: vfs.OpOpen, Glob: image, Every: 1, Err: syscall.EMFILE}, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			faulty := vfs.NewFaulty(vfs.OS())
			faulty.Inject(c.rule)
			s, err := Open(dir, Options{FS: faulty, Manual: true})
			if !c.opens {
				if !errors.Is(err, c.rule.Err) || errors.Is(err, format.ErrCorrupt) {
					t.Errorf("got %v, want %v alone", err, c.rule.Err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if v, _, err := s.Get(key(young)); v != 77 || err != nil {
				t.Errorf("a post in memory: got %d, %v", v, err)
			}
			if _, _, err := s.Get(key(0)); errors.Is(err, block.ErrCold) != c.errors || err != nil && !c.errors {
				t.Errorf("a cold post: got %v", err)
			}
		})
	}
}

// twoSnapshots makes a store with a post and two snapshots, and returns the manifest of the newer one.
func twoSnapshots(t *testing.T) (dir string, s *Store, newest *format.Manifest) {
	dir = t.TempDir()
	s = openDir(t, dir, Options{Manual: true}, seedScript)
	for v := range uint64(2) {
		if err := s.Set("5.cntrn", v); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, s, s.repl.Manifests()[0]
}

// TestNewerImage: an image whose table is of a later version is not damaged: the start is refused, and no older
// snapshot takes its place.
func TestNewerImage(t *testing.T) {
	dir, s, m := twoSnapshots(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b := &m.Counters[0].Blocks[0]
	img, err := snapfile.OpenImage(vfs.OS(), b.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, img.Length())
	if err := errors.Join(img.ReadInto(payload), img.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		kind    uint32
		version byte
	}{{"table", 0, 9}, {"older table", 0, 1}, {"kind", 9, 2}} {
		payload[0] = c.version
		h := img.ImageHeader
		h.Kind = c.kind
		info, err := snapfile.WriteImage(vfs.OS(), dir, h, payload)
		if err != nil {
			t.Fatal(err)
		}
		b.CRC = info.CRC
		if err := os.WriteFile(filepath.Join(dir, format.ManifestName(m.Generation)), m.Text(), 0o640); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(dir, Options{Manual: true}); !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, hot.ErrBadImage) {
			t.Errorf("%s: got %v, want ErrUnsupportedFormat", c.what, err)
			if err == nil {
				s.Close()
			}
		}
		if err := ImageRows(vfs.OS(), b.Path(dir), func(FileRow) error { return nil }); !errors.Is(err, format.ErrUnsupportedFormat) {
			t.Errorf("%s: rows: got %v, want ErrUnsupportedFormat", c.what, err)
		}
	}
}

// TestNewerSchema: a schema that a newer program wrote into the log or a manifest is not damaged: the start is refused, so that neither an older
// snapshot nor the data of another node takes the place of these files, and no repair cuts the log.
func TestNewerSchema(t *testing.T) {
	for _, where := range []string{"log", "manifest"} {
		t.Run(where, func(t *testing.T) {
			dir, s, m := twoSnapshots(t)
			if where == "log" {
				if _, err := s.data.Log.AppendSchema("schema format=999\nanything\n"); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if where == "manifest" {
				m.Schema[0] = "schema format=999"
				if err := os.WriteFile(filepath.Join(dir, format.ManifestName(m.Generation)), m.Text(), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if s, err := Open(dir, Options{Manual: true}); !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) {
				t.Errorf("got %v, want ErrUnsupportedFormat", err)
				if err == nil {
					s.Close()
				}
			}
			report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{})
			if err == nil {
				for _, p := range report.Problems {
					err = errors.Join(err, p.Err)
				}
			}
			if !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) {
				t.Errorf("check: got %v, want ErrUnsupportedFormat", err)
			}
			before := sumsOf(t, dir)
			if err := datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{}); !errors.Is(err, format.ErrUnsupportedFormat) {
				t.Errorf("repair: got %v, want ErrUnsupportedFormat", err)
			}
			if after := sumsOf(t, dir); !slices.Equal(after, before) {
				t.Errorf("a repair changed the directory from %q to %q", before, after)
			}
		})
	}
}

// sumsOf has the files of a directory with their checksums.
func sumsOf(t *testing.T, dir string) (sums []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		sums = append(sums, fmt.Sprintf("%s %08x", path, format.Checksum(b)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// TestScrubImages: images that rot while the store runs are found and written anew, of whichever snapshot, before a
// start needs them.
func TestScrubImages(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true}, seedScript)
	for v := range uint64(3) {
		if err := s.Set("5.cntrn", v); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "rdb", "*.hot"))
	newest := newestImage(t, dir)
	for _, path := range images {
		if path != newest { // the start does not read it
			flip(t, path, 100)
		}
	}
	s, err := Open(dir, Options{SnapshotGrowth: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	healed := func(what string) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Millisecond) {
			kept := s.repl.Manifests()
			var errs []error
			for _, m := range kept {
				errs = append(errs, m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(vfs.OS(), dir, c, b) }))
			}
			err := errors.Join(errs...)
			if err == nil && len(kept) == 2 && !s.Admin().Snapshots().Running {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d snapshots, %v", what, len(kept), err)
			}
		}
	}
	healed("the older one")
	s.tiers.Stop() // the next round is in an hour
	flip(t, newestImage(t, dir), 100)
	for _, m := range s.repl.Manifests() {
		if err := s.snapshots.VerifyImages(m); err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Fatal(err)
		}
	}
	healed("the newest one")
	if v, _, err := s.Get("5.cntrn"); v != 2 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
}

// TestDamagedAtStart: a start that finds the newest snapshot damaged takes the one before, or the log alone, and makes a new snapshot: no kept one is damaged then, although
// nothing was changed since. So the next damage meets a whole one again. The one before stays.
func TestDamagedAtStart(t *testing.T) {
	for what, damage := range map[string]func(dir string, s *Store) string{
		"image": func(dir string, _ *Store) string { return newestImage(t, dir) },
		"manifest": func(dir string, s *Store) string {
			return filepath.Join(dir, format.ManifestName(s.repl.Manifests()[0].Generation))
		},
	} {
		for _, alone := range []bool{false, true} { // with the snapshot before, or without
			dir := t.TempDir()
			opts := Options{Manual: true, SnapshotGrowth: -1}
			s := openDir(t, dir, opts, seedScript)
			for v := range uint64(2) {
				if err := errors.Join(s.Set("5.cntrn", v+1), s.Snapshot()); err != nil {
					t.Fatal(err)
				}
				if alone {
					break
				}
			}
			path := damage(dir, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			flip(t, path, 100)
			s, err := Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			if what == "manifest" && len(s.repl.Manifests()) > 1 {
				t.Fatal("the damaged manifest counts")
			}
			before := s.repl.Manifests()
			s.snapshots.SnapshotIfDue()
			kept := s.repl.Manifests()
			if !alone && !slices.Contains(kept, before[0]) {
				t.Errorf("%s: the whole snapshot is gone", what)
			}
			for _, m := range kept {
				if err := m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(vfs.OS(), dir, c, b) }); err != nil {
					t.Errorf("%s, alone %t: %v", what, alone, err)
				}
			}
			if _, bad, err := snapfile.ReadManifests(vfs.OS(), dir); len(kept) != len(before)+1 || len(bad) > 0 || err != nil {
				t.Errorf("%s, alone %t: %d snapshots, %v, %v", what, alone, len(kept), bad, err)
			}
			if s.snapshots.Due(false) {
				t.Errorf("%s, alone %t: another snapshot is due", what, alone)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestScrubDuringSnapshot: images found damaged while a snapshot is made, which may name them too, or before one that
// fails, are written anew by a later one.
func TestScrubDuringSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := vfs.NewSim()
		faulty := vfs.NewFaulty(sim)
		s := openDir(t, "data", Options{FS: faulty, Manual: true, SnapshotGrowth: -1}, seedScript)
		if err := s.Set("5.cntrn", 7); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		for what, hinder := range map[string]func() (release func()){
			"another is made": func() func() {
				s.snapshots.Mu.Lock()
				return s.snapshots.Mu.Unlock
			},
			"it fails": func() func() {
				faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Err: syscall.EIO})
				return func() { faulty.Clear(); time.Sleep(durable.MaxPause) }
			},
		} {
			m := s.repl.Manifests()[0]
			good := func(m *format.Manifest) error {
				return m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(sim, "data", c, b) })
			}
			_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
				return sim.Remove(b.Path("data"))
			})
			release := hinder()
			if err := s.snapshots.VerifyImages(m); err == nil {
				t.Fatal("no error")
			}
			synctest.Wait()
			if good(s.repl.Manifests()[0]) == nil {
				t.Fatalf("%s: the damaged images are not in force any more", what)
			}
			release()
			s.snapshots.SnapshotIfDue()
			if err := good(s.repl.Manifests()[0]); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
