package hot

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenTable is the table of testdata/block.v*.hot. It must not change.
func goldenTable(t testing.TB, version int) *Table {
	cols := []schema.Column{{ID: 1, Hint: 16, Max: 32}, {ID: 2, Hint: 8, Max: 32, Default: 3}, {ID: 5, Hint: 64, Max: 64}}
	l, err := schema.NewLayout(cols)
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(Config{Lo: 1000, Hi: 1 << 40, Buckets: 7, Layout: l, Seed: 42, OneGroup: version == imageOneGroup, Group: goldenGroup(version)})
	for i := range uint64(30) {
		s, _, err := tab.Insert(goldenMid(version, i))
		if err != nil {
			t.Fatal(err)
		}
		tab.Set(s, 0, i*i*i*10)
		tab.Set(s, 1, i*20)
		tab.Set(s, 2, i<<50)
	}
	s, _ := tab.Find(goldenMid(version, 0))
	tab.Delete(s)
	return tab
}

func goldenMid(version int, i uint64) uint64 {
	if version == imageOneGroup {
		return slot.Least(goldenGroup(version), 1000+i*i*7919)
	}
	return 1000 + i*i*7919
}

func goldenGroup(version int) uint8 {
	if version == imageOneGroup {
		return 201
	}
	return 0
}

// TestImageOfManyOverflows: the entries of an image come in the order of their places, so the table that takes them
// must not grow meanwhile, which would put them all into its first part, one behind the other.
func TestImageOfManyOverflows(t *testing.T) {
	l, err := schema.NewLayout([]schema.Column{{ID: 1, Hint: 1, Max: 32}, {ID: 2, Hint: 1, Max: 63}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	for _, hi := range []uint64{EndMid, 1 << 40} {
		tab := newTable(Config{Hi: hi, Buckets: BucketsFor(n, 0.8), Layout: l, Seed: 42})
		for i := range uint64(n) {
			s, _, err := tab.Insert(i * 7919)
			if err != nil {
				t.Fatal(err)
			}
			tab.Set(s, 0, i+100)
			tab.Set(s, 1, i<<40+100)
		}
		image := tab.AppendImage(nil)
		im, err := DecodeImage(image)
		if err != nil {
			t.Fatal(err)
		}
		mem := make([]byte, im.Config.Bytes())
		if allocs := testing.AllocsPerRun(5, func() {
			clear(mem)
			got, err := im.Table(mem)
			if err != nil || got.Overflows() != 2*n {
				t.Fatalf("%d overflow entries, %v, want %d", got.Overflows(), err, 2*n)
			}
		}); allocs > 5 {
			t.Errorf("up to %d: %v allocations: the table of overflow entries grew while they were put into it", hi, allocs)
		}
		got := loadImage(t, image)
		for i := range uint64(n) {
			if s, ok := got.Find(i * 7919); !ok || got.Get(s, 0) != i+100 || got.Get(s, 1) != i<<40+100 {
				t.Fatalf("item %d is another", i)
			}
		}
	}
}

// TestImageGolden: the images of all versions are unchanged, and a table that was read from an image is saved as the same
// bytes.
func TestImageGolden(t *testing.T) {
	for version, file := range map[int]string{imagePlain: "block.v2.hot", imageOneGroup: "block.v3.hot"} {
		file = filepath.Join("testdata", file)
		image := goldenTable(t, version).AppendImage(nil)
		if *update && version == imageVersion {
			if err := os.WriteFile(file, image, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sortEntries(image), sortEntries(want)) {
			t.Errorf("the image differs from %s: the format has changed", file)
		}
		got := loadImage(t, want)
		for i := uint64(1); i < 30; i++ {
			s, found := got.Find(goldenMid(version, i))
			if !found || got.Get(s, 0) != i*i*i*10 || got.Get(s, 1) != i*20 || got.Get(s, 2) != i<<50 {
				t.Errorf("%s: item %d: got found %v", file, i, found)
			}
		}
		if again := got.AppendImage(nil); !bytes.Equal(sortEntries(again), want) {
			t.Errorf("%s: read and saved again it is another", file)
		}
	}
}

// sortEntries sorts the overflow entries of an image in place: their order means nothing.
func sortEntries(image []byte) []byte {
	im, err := DecodeImage(image)
	if err != nil {
		return image
	}
	entries := slices.Collect(slices.Chunk(slices.Clone(im.entries), 16))
	slices.SortFunc(entries, bytes.Compare)
	copy(im.entries, slices.Concat(entries...))
	return image
}

func loadImage(t testing.TB, b []byte) *Table {
	t.Helper()
	im, err := DecodeImage(b)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := im.Table(make([]byte, im.Config.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Check(); err != nil {
		t.Fatal(err)
	}
	return &tab
}

// TestImageRoundTrip saves and loads random tables in the middle of random operations.
func TestImageRoundTrip(t *testing.T) {
	rng := newRand(t)
	for range 60 {
		tab := newTable(Config{Lo: 10, Hi: 10 + 1<<rng.IntN(63), Buckets: 1 + rng.IntN(40), Layout: layout(t, 1, 9, 16, 40, 8, 8), Seed: rng.Uint64()})
		m := model{}
		for range 5 {
			for range 200 {
				step(t, rng, tab, m, tab.lo+rng.Uint64N(min(tab.hi-tab.lo, 500)))
			}
			tab = loadImage(t, tab.AppendImage(nil))
			compare(t, tab, m)
		}
	}
}

// FuzzImage: arbitrary bytes give an error or a table on which nothing panics.
func FuzzImage(f *testing.F) {
	image := goldenTable(f, imagePlain).AppendImage(nil)
	f.Add(goldenTable(f, imageOneGroup).AppendImage(nil))
	f.Add(image)
	f.Add(image[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := DecodeImage(b)
		if err != nil {
			if !errors.Is(err, ErrBadImage) && !errors.Is(err, ErrUnsupportedImage) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		if im.Config.Bytes() > 2*len(b)+4096 {
			t.Fatalf("an image of %d bytes asks for %d", len(b), im.Config.Bytes())
		}
		tab, err := im.Table(make([]byte, im.Config.Bytes()))
		if err != nil {
			return
		}
		_ = tab.Check()
		s, _, err := tab.Insert(tab.lo)
		if err == nil && tab.items.count > 0 {
			tab.Set(s, 0, tab.Limit(0))
			tab.Get(s, 0)
			tab.Delete(s)
		}
	})
}
