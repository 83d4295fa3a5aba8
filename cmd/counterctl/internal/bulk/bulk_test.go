package bulk

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/tsv"
	"github.com/counterd/counterd/schema"
)

const testSchema = "add counter weibo\nadd column weibo comment hint=8 max=16 default=9 suffix=cntcm\n" +
	"add column weibo repost hint=8 max=32 suffix=cntrn\nadd column weibo attitude hint=8 max=63\n"

func testCounter(t testing.TB) *schema.Counter {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader(testSchema), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return s.Counters()[0]
}

// read reads all posts into a map, and checks that they come in order.
func read(t testing.TB, o Options) (map[uint64][3]uint64, Stats, error) {
	t.Helper()
	posts := map[uint64][3]uint64{}
	last := -1
	if o.Temp == "" {
		o.Temp = filepath.Join(t.TempDir(), "sorting")
	}
	stats, err := Read(t.Context(), o, func(p counter.Posts) error {
		for i, mid := range p.Mids {
			if int(mid) <= last {
				t.Fatalf("post %d behind %d", mid, last)
			}
			last = int(mid)
			posts[mid] = [3]uint64{p.Columns[0][i], p.Columns[1][i], p.Columns[2][i]}
		}
		return nil
	})
	if _, err := os.Stat(o.Temp); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the files of sorting are left: %v", err)
	}
	return posts, stats, err
}

// pack compresses text in one of three ways.
func pack(t testing.TB, text string, how int) []byte {
	t.Helper()
	var out bytes.Buffer
	switch how {
	case 0:
		return []byte(text)
	case 1:
		w := gzip.NewWriter(&out)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll([]byte(text), nil)
	}
	return out.Bytes()
}

// TestRead writes random posts to several files, in order or in none, with posts that stand twice and lines that hold
// none, and compares the posts read with a map.
func TestRead(t *testing.T) {
	c := testCounter(t)
	rounds := 12
	if testing.Short() {
		rounds = 6
	}
	for round := range rounds {
		seed := seed.Next(t)
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := Options{Counter: c, Sort: round%2 == 0, Memory: 1, SkipBad: 1 << 30, Duplicates: []Duplicates{Refuse, Last, Sum}[round/2%3]}
		n := 1 + rnd.IntN(200_000/(1+rnd.IntN(40))/(1+12-rounds))
		mids := make([]uint64, n)
		for i := range mids {
			mids[i] = rnd.Uint64N(uint64(n) * uint64(1+rnd.IntN(50)))
		}
		if !o.Sort {
			slices.Sort(mids)
		}
		if o.Duplicates == Refuse {
			seen := map[uint64]bool{}
			mids = slices.DeleteFunc(mids, func(m uint64) bool {
				was := seen[m]
				seen[m] = true
				return was
			})
		}
		want := map[uint64][3]uint64{}
		dups, bad := 0, 0
		dir := t.TempDir()
		for f := 0; len(mids) > 0; f++ {
			comma, sep := rnd.IntN(3) == 0, "\t"
			name := filepath.Join(dir, fmt.Sprintf("posts-%d.tsv", f))
			if comma {
				name, sep = filepath.Join(dir, fmt.Sprintf("posts-%d.csv", f)), ","
			}
			text := strings.Join([]string{"attitude", "mid", "cntrn"}, sep) + "\n"
			var lines strings.Builder
			take := min(len(mids), 1+rnd.IntN(1+n/2))
			for _, mid := range mids[:take] {
				row := [3]uint64{9, rnd.Uint64N(1000), rnd.Uint64N(10)}
				if rnd.IntN(50) == 0 {
					lines.WriteString([]string{"\n", "# nothing\n", "1" + sep + "x" + sep + "3\n", "1" + sep + "2\n"}[bad%4])
					bad++
				}
				fmt.Fprintf(&lines, "%d%s%d%s%d\n", row[2], sep, mid, sep, row[1])
				was, twice := want[mid]
				if twice {
					dups++
					if o.Duplicates == Sum {
						row = [3]uint64{18, was[1] + row[1], was[2] + row[2]}
						row[0] = was[0] + 9
					}
				}
				want[mid] = row
			}
			mids = mids[take:]
			if err := os.WriteFile(name, pack(t, text+lines.String(), rnd.IntN(3)), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Inputs = append(o.Inputs, name)
		}
		got, stats, err := read(t, o)
		if err != nil || !maps.Equal(got, want) {
			t.Fatalf("seed %d, sort %t, %s: %d posts, want %d: %v", seed, o.Sort, o.Duplicates, len(got), len(want), err)
		}
		if stats.Posts != uint64(len(want)) || stats.Duplicates != uint64(dups) || stats.Bad != bad/4*2+max(bad%4-2, 0) {
			t.Fatalf("seed %d: %+v, want %d posts, %d duplicates, bad lines of %d odd ones", seed, stats, len(want), dups, bad)
		}
	}
}

// TestReadDerived: a file with derived columns is refused, by an error that has the names with which it is read.
func TestReadDerived(t *testing.T) {
	onto, err := schema.ParseScript(strings.NewReader(testSchema), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.ParseScript(strings.NewReader("add column weibo day window=1d/1h of=comment\nadd column weibo heat decay=6h of=comment*2+repost\n"), onto)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "derived.tsv")
	if err := os.WriteFile(path, []byte("mid\tday\tcomment\tshare\trepost\theat\n1\t9\t2\t9\t3\t9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Counter: s.Counters()[0], Inputs: []string{path}, TSV: tsv.Options{Columns: []string{"mid", "day", "comment", "-", "repost", "heat"}}}
	for _, sort := range []bool{false, true} {
		o.Sort = sort
		const want = "nothing can be imported into it; to pass it over:\n  --columns "
		_, _, err := read(t, o)
		if err == nil || !strings.Contains(err.Error(), `column "day" of counter weibo is derived`) || !strings.HasSuffix(err.Error(), want+"mid,-,comment,-,repost,-") {
			t.Fatalf("sort %t: got %v", sort, err)
		}
	}
	o.TSV.Columns = []string{"mid", "-", "comment", "-", "repost", "-"}
	if got, _, err := read(t, o); err != nil || got[1] != [3]uint64{2, 3, 0} {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestReadErrors: errors name the refused line and its place.
func TestReadErrors(t *testing.T) {
	racetest.Skip(t, "TestRead reads with several workers")
	c := testCounter(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := file("a.tsv", "mid\tcomment\n1\t1\n\n5\t1\n"), file("b.tsv", "mid\tcomment\n5\t2\n9\t65530\n")
	for _, x := range []struct {
		inputs []string
		o      Options
		want   string
	}{
		{[]string{a, b}, Options{}, "b.tsv:2: post 5 stands twice, first at " + a + ":4"},
		{[]string{a, b}, Options{Sort: true}, "b.tsv:2: post 5 stands twice, first at " + a + ":4"},
		{[]string{b, a}, Options{}, "a.tsv:2: post 1 stands behind 9"},
		{[]string{file("c.tsv", "mid\tcomment\n2\t1\n2\t1\n")}, Options{}, "c.tsv:3: post 2 stands twice, first at " + filepath.Join(dir, "c.tsv") + ":2"},
		{[]string{file("d.tsv", "mid\tcomment\n2\t1\n1\t1\n")}, Options{}, "d.tsv:3: post 1 stands behind 2"},
		{[]string{b, file("e.tsv", "mid\tcomment\n9\t6\n")}, Options{Duplicates: Sum}, "e.tsv:2: the sum of comment of post 9 is above 65535"},
		{[]string{b, filepath.Join(dir, "e.tsv")}, Options{Duplicates: Sum, Sort: true}, "the sum of comment of post 9 is above 65535"},
		{[]string{file("f.tsv", "mid\tcomment\n9\t65536\n")}, Options{}, `f.tsv:2: column 2 "comment": "65536" is not a whole number 0..65535 (--skip-bad N`},
		{[]string{file("g.tsv", "mid\tcomment\n9\t1\n10\t-\n11\t-\n")}, Options{SkipBad: 1}, `g.tsv:4: column 2 "comment": "-" is not a whole number 0..65535 (and 1 lines before`},
		{[]string{filepath.Join(dir, "g.tsv")}, Options{SkipBad: 1, Sort: true}, `g.tsv:4: column 2 "comment"`},
		{[]string{file("h.tsv", "mid\tno\n1\t1\n")}, Options{}, `has no column "no"`},
		{[]string{file("i.tsv", "mid\tcomment\tcntcm\n1\t1\t1\n")}, Options{}, `are one column`},
		{[]string{file("j.csv", "mid,-,comment\n1,\"two\nlines\",65536\n")}, Options{}, `j.csv:2: column 3`},
		{[]string{filepath.Join(dir, "none")}, Options{}, "no such file"},
		{[]string{a, filepath.Join(dir, "none")}, Options{Sort: true}, "no such file"},
		{[]string{file("k.tsv", "1\t1\n")}, Options{}, "--columns"},
	} {
		x.o.Counter, x.o.Inputs = c, x.inputs
		if _, _, err := read(t, x.o); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, sort %t: %v, want %s", x.inputs, x.o.Sort, err, x.want)
		}
	}
	got, _, err := read(t, Options{Counter: c, Inputs: []string{file("l.csv", "mid,-,comment\n1,\"two\nlines, and\",7\n4,\"\",8\n")}})
	if err != nil || len(got) != 2 || got[4] != [3]uint64{8, 0, 0} {
		t.Errorf("quoted text: %v, %v", got, err)
	}
	got, _, err = read(t, Options{Counter: c, Inputs: []string{"-"}, Stdin: strings.NewReader("7\t1\n8\t2"), TSV: tsv.Options{Columns: []string{"mid", "repost"}}})
	if err != nil || len(got) != 2 || got[8] != [3]uint64{9, 2, 0} {
		t.Errorf("standard input: %v, %v", got, err)
	}
	// The receiver of the posts can end it, and so can the context.
	full := errors.New("full")
	for _, sort := range []bool{false, true} {
		o := Options{Counter: c, Inputs: []string{a}, Sort: sort, Temp: filepath.Join(dir, "sorting")}
		if _, err := Read(t.Context(), o, func(counter.Posts) error { return full }); !errors.Is(err, full) {
			t.Errorf("sort %t: %v, want what add said", sort, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Read(ctx, o, func(counter.Posts) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("sort %t: %v, want that it was cancelled", sort, err)
		}
	}
}

func TestSortPlaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 2))
	for range 50 {
		a := make([]place, 1+rnd.IntN(3000))
		mask := rnd.Uint64() & rnd.Uint64()
		for i := range a {
			a[i] = place{rnd.Uint64() & mask, uint32(i)}
		}
		want := slices.Clone(a)
		slices.SortStableFunc(want, func(x, y place) int {
			if x.mid < y.mid {
				return -1
			}
			if x.mid > y.mid {
				return 1
			}
			return 0
		})
		if got := sortPlaces(a, make([]place, len(a))); !slices.Equal(got, want) {
			t.Fatal("not sorted, or not stable")
		}
	}
}
