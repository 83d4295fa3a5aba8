package persist

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

func TestDir(t *testing.T) {
	fsys := vfs.NewSim()
	d, err := OpenDir(fsys, testDir)
	must(t, err)
	if _, err := OpenDir(fsys, testDir); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "counterctl") { // a backup may have it
		t.Error("second open: want ErrLocked, got", err)
	}
	if len(d.Manifests()) != 0 || d.KnownDurable() != 0 || d.ReplayFrom() != 0 {
		t.Error("a new directory has a manifest")
	}
	write := func(d *Dir, offset uint64) {
		t.Helper()
		info, err := snapfile.WriteImage(fsys, testDir, format.ImageHeader{Block: 1, Lo: 0, Hi: 10, Offset: offset}, []byte("payload"))
		must(t, err)
		m := &format.Manifest{Offset: offset, Replay: offset, NextCounter: 1, NextBlock: 2, Counters: []format.CounterFiles{{
			Blocks: []format.BlockFile{{Tier: format.TierHot, Block: 1, Hi: 10, Offset: offset, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}}}}}
		must(t, d.WriteManifest(m))
	}
	generations := func() []uint64 {
		g, err := snapfile.Generations(fsys, testDir)
		must(t, err)
		return g
	}
	for i := range uint64(11) {
		write(d, 100*(i+1))
	}
	if g := generations(); !slices.Equal(g, []uint64{11, 10}) {
		t.Errorf("generations %d", g)
	}
	if d.KnownDurable() != 1100 || d.ReplayFrom() != 1000 {
		t.Errorf("known durable %d, replay from %d", d.KnownDurable(), d.ReplayFrom())
	}
	orphans, err := d.Orphans()
	must(t, err)
	if len(orphans) != 9 {
		t.Errorf("%d orphans: %v", len(orphans), orphans)
	}
	removed, err := removeOrphans(d)
	must(t, err)
	if len(removed) != 9 {
		t.Errorf("removed %v", removed)
	}
	must(t, d.Close())

	// The newest damaged: the one before counts, and the next gets a new number.
	damage(t, fsys, filepath.Join(testDir, format.ManifestName(11)), 50)
	d, err = OpenDir(fsys, testDir)
	must(t, err)
	if ms := d.Manifests(); len(ms) != 1 || ms[0].Generation != 10 || len(d.Bad()) != 1 || !errors.Is(d.Bad()[0], format.ErrCorrupt) {
		t.Errorf("manifests %v, bad %v", ms, d.Bad())
	}
	write(d, 1200)
	if g := generations(); !slices.Equal(g, []uint64{12, 10}) {
		t.Errorf("generations %d", g)
	}
	must(t, d.Close())

	// All damaged: refuse. Newer: refuse, even if an older one is good.
	damage(t, fsys, filepath.Join(testDir, format.ManifestName(10)), 50)
	damage(t, fsys, filepath.Join(testDir, format.ManifestName(12)), 50)
	var corrupt *format.CorruptError
	if _, err := OpenDir(fsys, testDir); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), format.RepairCommand(testDir)) {
		t.Error("all manifests damaged: got", err)
	}
	must(t, vfs.WriteFileAtomic(fsys, filepath.Join(testDir, format.ManifestName(13)), newerManifest()))
	if _, err := OpenDir(fsys, testDir); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Error("newer manifest: got", err)
	}
	if leaks := fsys.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// newerManifest is a whole manifest of a version that is not read.
func newerManifest() []byte {
	text := "counterd manifest 8\nno more is known\n"
	return fmt.Appendf([]byte(text), "end crc32c %08x\n", format.Checksum([]byte(text)))
}

// damage flips a bit of a file.
func damage(t testing.TB, fsys vfs.FS, path string, off int64) {
	t.Helper()
	f, err := fsys.OpenRW(path)
	must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, off)
	must(t, err)
	must(t, errors.Join(f.Sync(), f.Close())) // no crash takes it back
}

// TestManifestCrash crashes a series of snapshots at every operation: a manifest that is there, an old one that was
// about to be removed too, is whole, so is all it names, and the last one acknowledged or a newer one is there. So it is where the
// older snapshot was given up.
func TestManifestCrash(t *testing.T) {
	seed := newSeed(t)
	for n := 0; ; n++ {
		fsys := vfs.NewSim()
		must(t, fsys.MkdirAll(testDir))
		must(t, fsys.SyncDir("/"))
		fsys.CrashAt(fsys.Ops() + n)
		acked, err := snapshots(fsys, 5)
		if !fsys.Crashed() {
			must(t, err)
			return
		}
		for _, keep := range []int{0, 30, 70, 100} {
			disk := fsys.Crash(seed, keep)
			there, _, _, err := snapfile.ListManifests(disk, testDir)
			if err != nil && !vfs.IsNotExist(err) {
				t.Fatal(err)
			}
			for _, m := range there {
				must(t, m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
					return snapfile.CheckBlock(disk, testDir, c, b, nil)
				}))
			}
			d, err := OpenDir(disk, testDir)
			if err != nil {
				t.Fatalf("seed %d, crash at %d, keep %d: %v", seed, n, keep, err)
			}
			var newest uint64
			for _, m := range d.Manifests() {
				newest = max(newest, m.Generation)
			}
			if newest < acked || len(d.Bad()) > 0 {
				t.Fatalf("seed %d, crash at %d, keep %d: newest %d, acknowledged %d, bad %v", seed, n, keep, newest, acked, d.Bad())
			}
			_, err = removeOrphans(d)
			must(t, err)
			must(t, d.Close())
		}
	}
}

// snapshots makes n snapshots and returns the generation of the last that was acknowledged. The last but one is kept alone before the
// next one is made.
func snapshots(fsys vfs.FS, n int) (acked uint64, err error) {
	d, err := OpenDir(fsys, testDir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	for i := range uint64(n) {
		m := &format.Manifest{Offset: 10 * i, Replay: 10 * i, NextCounter: 1, NextBlock: 9, Counters: []format.CounterFiles{{}}}
		for block := range uint64(2) {
			h := format.ImageHeader{Block: block, Lo: 10 * block, Hi: 10*block + 10, Offset: 10 * i}
			info, err := snapfile.WriteImage(fsys, testDir, h, []byte("payload"))
			if err != nil {
				return acked, err
			}
			m.Counters[0].Blocks = append(m.Counters[0].Blocks, format.BlockFile{Tier: format.TierHot, Block: block, Lo: h.Lo, Hi: h.Hi, Offset: h.Offset,
				Bytes: info.Bytes, CRC: info.CRC, Name: info.Name})
		}
		if err := d.WriteManifest(m); err != nil {
			return acked, err
		}
		acked = m.Generation
		if i+2 == uint64(n) { // as on a full disk
			if err := d.KeepOnly(m); err != nil {
				return acked, err
			}
		}
		if _, err := removeOrphans(d); err != nil {
			return acked, err
		}
	}
	return acked, nil
}
