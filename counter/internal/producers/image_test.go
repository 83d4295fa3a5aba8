package producers

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist/format"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenTable is the table of testdata/producers.v1.image. It must not change.
func goldenTable(t testing.TB) *Table { return goldenOf(t, 4) }

// goldenTable2 is the table of testdata/producers.v2.image, which has a producer of so many seqs that some have no results. It must not
// change.
func goldenTable2(t testing.TB) *Table { return goldenOf(t, 5) }

func goldenOf(t testing.TB, producers int) *Table {
	tab := New(Limits{Producers: producers, Bytes: 1 << 20, MinIdle: 10})
	results := []format.Result{
		{Kind: format.ResultInt, N: 1<<64 - 5}, {Kind: format.ResultOK}, {Kind: format.ResultBulk, N: 42}, {Kind: format.ResultNil},
		{Kind: format.ResultBlob, Blob: []byte("a blob")}, {Kind: format.ResultGone}, {Kind: format.ResultBlob, Blob: []byte{}},
	}
	for i := range 3 * Window {
		r := request("writer", uint64(i)*uint64(i)+1<<50, 1760000000+int64(i))
		r.Room = 10
		put(t, tab, r, results[i%len(results)])
	}
	put(t, tab, request("\x00\xff", 1<<64-1, 1760000000), results[0])
	r := request("an id of the longest length there", 0, 1760000000)
	r.ID, r.Epoch = r.ID[:32], 1<<63-1
	put(t, tab, r, results[4])
	put(t, tab, request("out of order", 7, 1760000000), results[1])
	put(t, tab, request("out of order", 3, 1760000000), results[3])
	try := tab.BeginFence([]byte("fenced only"), 1760000500)
	tab.InsertFence([]byte("fenced only"), &try, 1760000500, 0)
	must(t, tab.check())
	return tab
}

func TestGolden(t *testing.T) {
	for file, tab := range map[string]*Table{"producers.v1.image": goldenTable(t), "producers.v2.image": goldenTable2(t)} {
		name := filepath.Join("testdata", file)
		if *update {
			must(t, os.WriteFile(name, tab.AppendImage(nil), 0o644))
		}
		want, err := os.ReadFile(name)
		must(t, err)
		if !bytes.Equal(copyOf(t, tab).AppendImage(nil), want) {
			t.Errorf("the image differs from %s", name)
		}
		back, err := Load(want, tab.limits)
		must(t, err)
		must(t, back.sameAs(tab))
	}
}

// TestBadImages: every prefix and every impossible value gives an error that says where.
func TestBadImages(t *testing.T) {
	good := goldenTable2(t).AppendImage(nil)
	for n := range good {
		if _, err := Load(good[:n], Limits{}); !errors.Is(err, ErrBadImage) {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	if _, err := Load(append(bytes.Clone(good), 0), Limits{}); !errors.Is(err, ErrBadImage) {
		t.Errorf("a byte more: %v", err)
	}
	one := func(number byte, id string) string {
		return string([]byte{number, byte(len(id))}) + id + "\x00\x00\x00\x00\x00"
	}
	long := string(bytes.Repeat([]byte{'x'}, 33))
	for name, image := range map[string]string{
		"version 0":            "\x00\x00\x00",
		"second version byte":  "\x01\x01\x00",
		"no id":                "\x01\x00\x01" + one(0, ""),
		"a long id":            "\x01\x00\x01" + one(0, long),
		"one id twice":         "\x01\x00\x02" + one(0, "a") + one(1, "a"),
		"one number twice":     "\x01\x00\x02" + one(0, "a") + one(0, "b"),
		"a high number":        "\x01\x00\x01\x80\x80\x01\x01a\x00\x00\x00\x00\x00",
		"many producers":       "\x01\x00\x81\x80\x01",
		"too many entries":     "\x01\x00\x01\x00\x01a\x00\x00\x00\x00\x81\x01",
		"kind 0":               "\x01\x00\x01\x00\x01a\x00\x00\x00\x00\x01" + "\x00" + "\x00\x00\x00\x00" + "\x00",
		"kind 7":               "\x01\x00\x01\x00\x01a\x00\x00\x00\x00\x01" + "\x00" + "\x00\x07\x00\x00" + "\x00",
		"version 2.1":          "\x02\x01\x00",
		"a number above all":   "\x02\x00\x01\x80\x80\x40\x01a\x00\x00\x00\x00\x00\x00",
		"no spans":             "\x02\x00\x01" + one(0, "a"),
		"a span of no block":   "\x02\x00\x01" + one(0, "a") + "\x01\x00\x00",
		"a span of 65 blocks":  "\x02\x00\x01" + one(0, "a") + "\x01\x00\x41",
		"a span without seqs":  "\x02\x00\x01" + one(0, "a") + "\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
		"many spans":           "\x02\x00\x01" + one(0, "a") + "\x81\x04",
		"many seqs":            "\x02\x00\x01" + one(0, "a") + "\x03\x00\x40\x00\x40\x00\x40",
		"a block above all":    "\x02\x00\x01" + one(0, "a") + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x03\x02",
		"expired seqs":         "\x02\x00\x01\x00\x01a\x00\x00\x01\x00\x00" + "\x01\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00",
		"a seq twice":          "\x02\x00\x01\x00\x01a\x00\x00\x00\x00\x01" + "\x00\x00\x02\x00\x00\x00" + "\x01\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00",
		"seqs beyond the last": "\x01\x00\x01\x00\x01a\x00\x00\x00\x00\x02" + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + "\x00\x02\x00\x00" + "\x00" + "\x00" + "\x00\x02\x00\x00" + "\x00",
	} {
		if _, err := Load([]byte(image), Limits{}); !errors.Is(err, ErrBadImage) {
			t.Errorf("%s: got %v, want %v", name, err, ErrBadImage)
		}
	}
	if _, err := Load([]byte{imageVersion + 1, 0, 0}, Limits{}); !errors.Is(err, ErrNewerImage) {
		t.Errorf("a newer version: %v", err)
	}
}

// FuzzLoad: any bytes give an error, or a table that holds what must hold and is written as it was read.
func FuzzLoad(f *testing.F) {
	f.Add(goldenTable(f).AppendImage(nil))
	f.Add(goldenTable2(f).AppendImage(nil))
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := Load(b, Limits{})
		if err != nil {
			if !errors.Is(err, ErrBadImage) && !errors.Is(err, ErrNewerImage) {
				t.Fatalf("%v", err)
			}
			return
		}
		must(t, tab.check())
		if charged, most := tab.Bytes(), int64(len(b))*400+1<<10; charged > most {
			t.Fatalf("%d bytes are charged %d", len(b), charged)
		}
		copyOf(t, tab)
	})
}

// TestLogRefused: records that cannot be of this table's log change nothing.
func TestLogRefused(t *testing.T) {
	tab := New(Limits{})
	if err := tab.Define(MaxPlaces, 0, 0, []byte("a"), 0); !errors.Is(err, format.ErrCorrupt) {
		t.Error(err)
	}
	if err := tab.Define(0, 0, 0, make([]byte, 33), 0); !errors.Is(err, format.ErrCorrupt) {
		t.Error(err)
	}
	ok := format.Result{Kind: format.ResultOK}
	if tab.Apply(0, 0, 0, 0, ok, 0) {
		t.Error("an entry of nobody")
	}
	must(t, tab.Define(3, 2, 1<<64-2, []byte("a"), 0))
	for _, r := range []format.Result{{Kind: format.ResultNext}, {Kind: 7}, {Kind: format.ResultBlob, Blob: make([]byte, format.MaxResult+1)}} {
		if tab.Apply(3, 0, 0, 0, r, 0) {
			t.Errorf("result %v", r.Kind)
		}
	}
	if tab.Apply(3, 2, 0, 0, ok, 0) {
		t.Error("a seq above the highest")
	}
	if s := tab.Stats(); s.Entries != 0 || s.Producers != 1 || s.Unknown != 5 {
		t.Errorf("%+v", s)
	}
	// An entry that comes again replaces the first; so does a producer with a known number or id.
	for i := range 3 {
		if !tab.Apply(3, 1, 0, 0, format.Result{Kind: format.ResultBlob, Blob: make([]byte, 100*i)}, 0) {
			t.Error("not known")
		}
		must(t, tab.check())
	}
	must(t, tab.Define(5, 2, 0, []byte("a"), 0))
	if tab.Len() != 1 || tab.at(3) != nil || tab.at(5).ring.n != 0 {
		t.Error("a is at two places")
	}
	must(t, tab.Define(5, 2, 0, nil, 0))
	if tab.Len() != 0 || tab.Bytes() != 0 {
		t.Errorf("%d producers left", tab.Len())
	}
}
