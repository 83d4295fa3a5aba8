package persist

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// sampleManifest has one of everything.
func sampleManifest() *Manifest {
	return &Manifest{
		Generation: 3, History: testHistory, OldReplID: ReplID{7}, OldEnd: 99, TimeMS: 1_700_000_000_000,
		Offset: 9000, Replay: 8000, NextCounter: 3, NextBlock: 9,
		Schema: []string{"add counter weibo", "add column weibo comment hint=16 max=32 \"x\"\n\xff"},
		Counters: []CounterFiles{
			{ID: 1, Name: "weibo", NextColumn: 4, Blocks: []BlockFile{
				{Tier: TierCold, Block: 2, Lo: 0, Hi: 100, Offset: 8000, Items: 10, Bytes: 500, CRC: 0xff, Name: "2-8000.cold"},
				{Tier: TierOverlay, Block: 2, Lo: 0, Hi: 100, Offset: 8500, Items: 1, Bytes: 180, CRC: 1, Name: "2-8500.hot"},
				{Tier: TierHot, Block: 5, Lo: 100, Hi: 1 << 63, Offset: 9000, Items: 3, Bytes: 200, CRC: 2, Name: "5-9000.hot"},
			}},
			{ID: 2, Name: "empty"},
		},
	}
}

// producersManifest has producers too.
func producersManifest() *Manifest {
	m := sampleManifest()
	m.Producers = &BlockFile{Tier: TierProducers, Block: 7, Offset: 8200, Items: 10000, Bytes: 1 << 24, CRC: 3, Name: "7-8100.hot"}
	return m
}

// movingManifest has groups on their way too.
func movingManifest() *Manifest {
	m := producersManifest()
	m.Moving = []MovingGroups{{"", slot.Set{1<<3 | 1<<4 | 1<<5 | 1<<63, 1}}, {"4f\"1d", slot.Set{0, 0, 0, 1 << 63}}, {"90ab", slot.Set{1}}}
	return m
}

// groupedManifest is one of a store made of groups: groups 0, 3 and 255 have blocks.
func groupedManifest() *Manifest {
	m := sampleManifest()
	m.Grouped = true
	c := &m.Counters[0]
	all := c.Blocks
	c.Blocks = nil
	for i, group := range []uint8{0, 3, 255} {
		for _, b := range all {
			b.Group, b.Block = group, b.Block+m.NextBlock*uint64(i)
			if b.Tier == TierCold {
				b.Name = ColdName(b.Block, b.Offset)
			} else {
				b.Name = ImageName(b.Block, b.Offset)
			}
			c.Blocks = append(c.Blocks, b)
		}
	}
	m.NextBlock *= 3
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*Manifest{sampleManifest(), producersManifest(), movingManifest(), {Generation: 1}} {
		must(t, m.Validate())
		got, err := parseManifest("m", m.appendText(nil))
		must(t, err)
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	golden(t, "MANIFEST-v1", sampleManifest().appendText(nil))
	golden(t, "MANIFEST-v2", producersManifest().appendText(nil))
	golden(t, "MANIFEST-v4-moving", movingManifest().appendText(nil))
	packed := producersManifest()
	packed.LogPacked = true
	text := golden(t, "MANIFEST-v3", packed.appendText(nil))
	got, err := parseManifest("m", text)
	must(t, err)
	if !reflect.DeepEqual(got, packed) {
		t.Errorf("got %+v, want %+v", got, packed)
	}
	grouped := groupedManifest()
	must(t, grouped.Validate())
	if got, err = parseManifest("m", golden(t, "MANIFEST-v5", grouped.appendText(nil))); err != nil || !reflect.DeepEqual(got, grouped) {
		t.Errorf("got %+v, %v, want %+v", got, err, grouped)
	}
	// What is said of the directory's log is not for others, who may know no such version.
	golden(t, "MANIFEST-v2", packed.Text())
}

func TestManifestDamage(t *testing.T) {
	everyDamage(t, sampleManifest().appendText(nil), func(b []byte) error {
		_, err := parseManifest("m", b)
		return err
	})
}

// resealed returns a manifest's text with something replaced and the checksum made right again.
func resealed(from, to string) []byte { return resealedOf(sampleManifest(), from, to) }

func resealedOf(m *Manifest, from, to string) []byte {
	text := string(m.appendText(nil))
	text = strings.Replace(text[:strings.Index(text, manifestEnd)], from, to, 1)
	return fmt.Appendf([]byte(text), manifestEnd+"%08x\n", crc32c([]byte(text)))
}

func TestManifestRefused(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"manifest 1", "manifest 6", ErrUnsupportedFormat},
		{"manifest 1", "manifest 2", ErrCorrupt}, // without producers it is written as 1
		{"manifest 1", "manifest 0", ErrCorrupt},
		{"manifest 1", "manifest 01", ErrCorrupt},
		{"generation 3", "generation 0", ErrCorrupt},
		{"generation 3", "generation 18446744073709551616", ErrCorrupt},
		{"replay 8000", "replay 9001", ErrCorrupt},
		{"replica false", "replica maybe", ErrCorrupt},
		{"next-block 9", "next-block 5", ErrCorrupt},
		{"next-counter 3", "next-counter 2", ErrCorrupt},
		{"lo 100 hi", "lo 99 hi", ErrCorrupt},
		{"hi 100", "hi 0", ErrCorrupt},
		{"offset 9000 items", "offset 9001 items", ErrCorrupt},
		{"\nhot", "\nlukewarm", ErrCorrupt},
		{"5-9000.hot", "../5-9000.hot", ErrCorrupt},
		{"5-9000.hot", "5-9000.hot.tmp", ErrCorrupt}, // removed at a start
		{"5-9000.hot", "5-9000.hot.new", ErrCorrupt},
		{"5-9000.hot", "5-9000.cold", ErrCorrupt},
		{"2-8000.cold", "2-8000.hot", ErrCorrupt},
		{"5-9000.hot", "hot", ErrCorrupt},
		{"5-9000.hot", strings.Repeat("5", 200) + ".hot", ErrCorrupt},
		{"5-9000.hot", "2-8500.hot", ErrCorrupt},                        // an image and an overlay lie in one directory
		{"generation 3", "generation 18446744073709551615", ErrCorrupt}, // there is none behind it
		{"next-block 9", "next-block 18446744073709551615", ErrCorrupt},
		{"offset 9000 replay", "offset 18446744073709551615 replay", ErrCorrupt},
		{"crc 00000002", "crc 2", ErrCorrupt},
		{"\ntime", "\n\ntime", ErrCorrupt},
		{`schema "add`, `schema add`, ErrCorrupt},
	} {
		text := resealed(c.from, c.to)
		_, err := parseManifest("m", text)
		if !errors.Is(err, c.want) || c.want == ErrUnsupportedFormat && errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v, want %v", c.to, c.from, err, c.want)
		}
	}
}

// TestManifestMovingRefused breaks the lines of groups on their way.
func TestManifestMovingRefused(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"manifest 4", "manifest 3"},
		{"gone groups 3-5,63-64", "gone groups 3-5,63-256"},
		{"gone groups 3-5,63-64", "gone groups "},
		{"gone groups 3-5,63-64", "gone groups 3-5,63,64"},
		{"gone groups 3-5,63-64\n", "gone groups 3\ngone groups 4\n"},
		{"importing \"90ab\"", "importing \"3\""},
		{"importing \"90ab\"", "importing \"\""},
		{"importing \"90ab\"", "importing \"" + strings.Repeat("9", MaxMoveID+1) + "\""},
	} {
		if _, err := parseManifest("m", resealedOf(movingManifest(), c.from, c.to)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v", c.to, c.from, err)
		}
	}
	everyDamage(t, movingManifest().appendText(nil), func(b []byte) error {
		_, err := parseManifest("m", b)
		return err
	})
}

// TestManifestProducersRefused breaks the line of the producers.
func TestManifestProducersRefused(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"manifest 2", "manifest 1"},
		{"producers 7", "producers 9"}, // that block is to come
		{"offset 8200", "offset 7999"},
		{"offset 8200", "offset 9001"},
		{`file "7-8100.hot"`, `file "7-8100.cold"`},
		{`file "7-8100.hot"`, `file "../7-8100.hot"`},
		{`file "7-8100.hot"`, `file "5-9000.hot"`}, // a block's
		{"producers 7", "producers 7 lo 0 hi 0"},
		{"\nproducers 7", "\nproducers 7 offset 8200 items 1 bytes 1 crc 00000003 file \"7-8000.hot\"\nproducers 7"},
	} {
		if _, err := parseManifest("m", resealedOf(producersManifest(), c.from, c.to)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v", c.to, c.from, err)
		}
	}
	everyDamage(t, producersManifest().appendText(nil), func(b []byte) error {
		_, err := parseManifest("m", b)
		return err
	})
}

func FuzzManifest(f *testing.F) {
	text := sampleManifest().appendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	text = producersManifest().appendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	text = movingManifest().appendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	f.Add([]byte(manifestTitle + "1\n"))
	f.Add([]byte(manifestTitle + "1\ngeneration 1\nreplid 0102 epoch 1\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := fmt.Appendf(bytes.Clone(body), manifestEnd+"%08x\n", crc32c(body))
		m, err := parseManifest("m", text)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedFormat) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(m.appendText(nil), text) {
			t.Fatal("text is not what the manifest writes")
		}
	})
}

func TestDir(t *testing.T) {
	fsys := vfs.NewSim()
	d, err := OpenDir(fsys, testDir)
	must(t, err)
	if _, err := OpenDir(fsys, testDir); !errors.Is(err, vfs.ErrLocked) {
		t.Error("second open: want ErrLocked, got", err)
	}
	if len(d.Manifests()) != 0 || d.KnownDurable() != 0 || d.ReplayFrom() != 0 {
		t.Error("a new directory has a manifest")
	}
	write := func(d *Dir, offset uint64) {
		t.Helper()
		info, err := WriteImage(fsys, testDir, ImageHeader{Block: 1, Lo: 0, Hi: 10, Offset: offset}, []byte("payload"))
		must(t, err)
		m := &Manifest{Offset: offset, Replay: offset, NextCounter: 1, NextBlock: 2, Counters: []CounterFiles{{
			Blocks: []BlockFile{{Tier: TierHot, Block: 1, Hi: 10, Offset: offset, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}}}}}
		must(t, d.WriteManifest(m))
	}
	generations := func() []uint64 {
		g, err := Generations(fsys, testDir)
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
	damage(t, fsys, filepath.Join(testDir, ManifestName(11)), 50)
	d, err = OpenDir(fsys, testDir)
	must(t, err)
	if ms := d.Manifests(); len(ms) != 1 || ms[0].Generation != 10 || len(d.Bad()) != 1 || !errors.Is(d.Bad()[0], ErrCorrupt) {
		t.Errorf("manifests %v, bad %v", ms, d.Bad())
	}
	write(d, 1200)
	if g := generations(); !slices.Equal(g, []uint64{12, 10}) {
		t.Errorf("generations %d", g)
	}
	must(t, d.Close())

	// All damaged: refuse. Newer: refuse, even if an older one is good.
	damage(t, fsys, filepath.Join(testDir, ManifestName(10)), 50)
	damage(t, fsys, filepath.Join(testDir, ManifestName(12)), 50)
	var corrupt *CorruptError
	if _, err := OpenDir(fsys, testDir); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), RepairCommand(testDir)) {
		t.Error("all manifests damaged: got", err)
	}
	must(t, vfs.WriteFileAtomic(fsys, filepath.Join(testDir, ManifestName(13)), resealed("manifest 1", "manifest 6")))
	if _, err := OpenDir(fsys, testDir); !errors.Is(err, ErrUnsupportedFormat) {
		t.Error("newer manifest: got", err)
	}
	if leaks := fsys.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
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
// about to be removed too, is whole, so is all it names, and the last one acknowledged or a newer one is there.
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
			there, _, _, err := listManifests(disk, testDir)
			if err != nil && !isNotExist(err) {
				t.Fatal(err)
			}
			for _, m := range there {
				must(t, m.Files(func(c *CounterFiles, b *BlockFile) error {
					return CheckBlock(disk, testDir, c, b, nil)
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

// snapshots makes n snapshots and returns the generation of the last that was acknowledged.
func snapshots(fsys vfs.FS, n int) (acked uint64, err error) {
	d, err := OpenDir(fsys, testDir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	for i := range uint64(n) {
		m := &Manifest{Offset: 10 * i, Replay: 10 * i, NextCounter: 1, NextBlock: 9, Counters: []CounterFiles{{}}}
		for block := range uint64(2) {
			h := ImageHeader{Block: block, Lo: 10 * block, Hi: 10*block + 10, Offset: 10 * i}
			info, err := WriteImage(fsys, testDir, h, []byte("payload"))
			if err != nil {
				return acked, err
			}
			m.Counters[0].Blocks = append(m.Counters[0].Blocks, BlockFile{Tier: TierHot, Block: block, Lo: h.Lo, Hi: h.Hi, Offset: h.Offset,
				Bytes: info.Bytes, CRC: info.CRC, Name: info.Name})
		}
		if err := d.WriteManifest(m); err != nil {
			return acked, err
		}
		acked = m.Generation
		if _, err := removeOrphans(d); err != nil {
			return acked, err
		}
	}
	return acked, nil
}
