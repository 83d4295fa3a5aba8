package coldstore

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// randomRange is a condition that some of the rows meet.
func (r *rows) randomRange(rnd *rand.Rand) page.Range {
	c := page.Range{Col: rnd.IntN(len(r.meta.Columns)), Hi: math.MaxUint64}
	some := func() uint64 { return r.vals[rnd.IntN(len(r.vals))][c.Col] }
	switch rnd.IntN(5) {
	case 0:
		c.Lo = some()
		c.Hi = c.Lo
	case 1:
		c.Lo = some()
	case 2:
		c.Hi = some()
	case 3:
		a, b := some(), some()
		c.Lo, c.Hi = min(a, b), max(a, b)
	}
	for range rnd.IntN(3) {
		c.Not = append(c.Not, some())
	}
	return c
}

func meets(r page.Range, v uint64) bool {
	return v >= r.Lo && v <= r.Hi && !slices.Contains(r.Not, v)
}

// checkScan compares what a scan with random conditions finds with the rows, page by page in random order.
func (r *rows) checkScan(t testing.TB, rnd *rand.Rand, f *File) {
	t.Helper()
	s := f.PageScan()
	defer s.Close()
	var sel []int32
	for _, i := range rnd.Perm(f.Pages()) {
		if err := s.Load(i, rnd.IntN(f.Pages())); err != nil {
			t.Fatal(err)
		}
		lo, hi := f.PageStart(i), f.PageStart(i+1)
		first, _ := slices.BinarySearch(r.mids, lo)
		end, _ := slices.BinarySearch(r.mids, hi)
		if s.Len() != end-first {
			t.Fatalf("page %d has %d rows, want %d", i, s.Len(), end-first)
		}
		for range 3 {
			var conditions []page.Range
			for range rnd.IntN(4) {
				conditions = append(conditions, r.randomRange(rnd))
			}
			a, b := r.mids[first+rnd.IntN(s.Len())]+rnd.Uint64N(2), r.mids[first+rnd.IntN(s.Len())]+rnd.Uint64N(2)
			if rnd.IntN(2) == 0 {
				a, b = lo, hi
			}
			from, to := s.Row(a), s.Row(b)
			if wantFrom, _ := slices.BinarySearch(r.mids[first:end], a); from != wantFrom {
				t.Fatalf("page %d: row of %d is %d, want %d", i, a, from, wantFrom)
			}
			var want []int32
			for k := from; k < to; k++ {
				if !slices.ContainsFunc(conditions, func(c page.Range) bool { return !meets(c, r.vals[first+k][c.Col]) }) {
					want = append(want, int32(k))
				}
			}
			var err error
			if sel, err = s.Select(sel[:0], from, to, conditions); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(sel, want) {
				t.Fatalf("page %d, rows %d..%d, %+v: got %d rows, want %d: %v, %v", i, from, to, conditions, len(sel), len(want), sel, want)
			}
			if rnd.IntN(2) == 0 { // any selection
				sel = slices.DeleteFunc(sel, func(int32) bool { return rnd.IntN(20) > 0 })
			}
			stride := 1 + len(r.meta.Columns)
			out := make([]uint64, stride*len(sel))
			if err := s.Mids(out, stride, sel); err != nil {
				t.Fatal(err)
			}
			for c := range r.meta.Columns {
				if len(sel) == 0 {
					break
				}
				if err := s.Values(out[1+c:], stride, c, sel); err != nil {
					t.Fatal(err)
				}
			}
			for k, row := range sel {
				got := out[k*stride : (k+1)*stride]
				if got[0] != r.mids[first+int(row)] || !equal(got[1:], r.vals[first+int(row)]) {
					t.Fatalf("page %d, row %d: got %v, want %d %v", i, row, got, r.mids[first+int(row)], r.vals[first+int(row)])
				}
			}
		}
	}
}

// TestPageScan scans random files with random conditions.
func TestPageScan(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		r := &rows{meta: metaOf([]uint8{32, 8, 64, 1, 20}[:1+rnd.IntN(5)]...)}
		if rnd.IntN(3) == 0 {
			p := posts(rnd, 1+rnd.IntN(8000), 4000)
			r = p
		}
		for range rnd.IntN(4) {
			r.addRandom(rnd, 1+rnd.IntN(3000))
		}
		if rnd.IntN(8) == 0 { // a few far apart
			r = &rows{meta: metaOf(64)}
			for range 3 + rnd.IntN(4) {
				r.mids, r.vals = append(r.mids, rnd.Uint64()>>1), append(r.vals, []uint64{rnd.Uint64()})
			}
			slices.Sort(r.mids)
			r.mids = slices.Compact(r.mids)
			r.vals = r.vals[:len(r.mids)]
		}
		if len(r.mids) == 0 {
			continue
		}
		if rnd.IntN(2) == 0 {
			r.ofGroup(uint8(rnd.IntN(256)))
		}
		r.checkScan(t, rnd, r.open(t, nil))
	}
}

// TestPageScanAllocs: no allocation a page.
func TestPageScanAllocs(t *testing.T) {
	rnd := newRand(t)
	f := posts(rnd, 50_000, 4000).open(t, nil)
	var sel []int32
	out := make([]uint64, 4*page.MaxItems)
	conditions := []page.Range{{Col: 1, Lo: 1, Hi: 9}}
	s := f.PageScan()
	defer s.Close()
	scan := func() {
		for i := range f.Pages() {
			if err := s.Load(i, f.Pages()-1); err != nil {
				t.Fatal(err)
			}
			var err error
			if sel, err = s.Select(sel[:0], 0, s.Len(), conditions); err != nil {
				t.Fatal(err)
			}
			err = errors.Join(s.Mids(out, 4, sel), s.Values(out[1:], 4, 0, sel), s.Values(out[2:], 4, 2, sel))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	scan()
	if n := testing.AllocsPerRun(5, scan); n > 0 {
		t.Errorf("%v allocations for %d pages", n, f.Pages())
	}
}

// badSpot is a file system with a file of which some bytes cannot be read.
type badSpot struct {
	vfs.FS
	lo, hi int64
}

type badSpotFile struct {
	vfs.File
	fs *badSpot
}

func (b *badSpot) Open(name string) (vfs.File, error) {
	f, err := b.FS.Open(name)
	return &badSpotFile{f, b}, err
}

func (f *badSpotFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.fs.hi && off+int64(len(p)) > f.fs.lo {
		return 0, errors.New("a bad sector")
	}
	return f.File.ReadAt(p, off)
}

// TestBadSector: one page cannot be read, and those that are read ahead with it can.
func TestBadSector(t *testing.T) {
	r := posts(newRand(t), 50_000, 4000)
	name := filepath.Join(t.TempDir(), "block.cold")
	r.write(t, vfs.OS(), name)
	fs := &badSpot{FS: vfs.OS()}
	f, err := Open(fs, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const bad = 10
	off, _ := f.extent(bad)
	fs.lo, fs.hi = off+100, off+101
	n := 0
	err = f.Iterate(0, func(mid uint64, _ []uint64) bool {
		if mid != r.mids[n] {
			t.Fatalf("row %d is %d, want %d", n, mid, r.mids[n])
		}
		n++
		return true
	})
	if want, _ := slices.BinarySearch(r.mids, f.PageStart(bad)); n != want || !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %d rows, %v; want %d and an unreadable page", n, err, want)
	}
	for _, last := range []int{0, f.Pages() - 1} {
		s := f.PageScan()
		for i := range f.Pages() {
			if err := s.Load(i, last); (err != nil) != (i == bad) {
				t.Errorf("page %d, towards %d: got %v", i, last, err)
			}
		}
		s.Close()
	}
}

// BenchmarkPageScan scans real looking posts with a condition that few, some, or all rows meet; beside it a plain loop
// over arrays. An operation is a row.
func BenchmarkPageScan(b *testing.B) {
	r := posts(rand.New(rand.NewPCG(1, 2)), benchRows, 4000)
	f := r.open(b, nil)
	mids, cols := slices.Clone(r.mids), make([][]uint64, 3)
	for c := range cols {
		for _, v := range r.vals {
			cols[c] = append(cols[c], v[c])
		}
	}
	for _, sel := range []struct {
		name  string
		least uint64
	}{{"few", 1000}, {"some", 1}, {"all", 0}} {
		out := make([]uint64, 0, 4*page.MaxItems)
		b.Run(fmt.Sprintf("rows=%s/file", sel.name), func(b *testing.B) {
			conditions := []page.Range{{Col: 0, Lo: sel.least, Hi: math.MaxUint64}}
			if sel.least == 0 {
				conditions = nil
			}
			s := f.PageScan()
			defer s.Close()
			var rows []int32
			b.SetBytes(f.Stat().Bytes / benchRows)
			b.ReportMetric(f.Stat().BytesPerItem(), "B/row")
			for left := b.N; left > 0; left -= benchRows {
				for i := range f.Pages() {
					if err := s.Load(i, f.Pages()-1); err != nil {
						b.Fatal(err)
					}
					rows, _ = s.Select(rows[:0], 0, s.Len(), conditions)
					out = out[:4*len(rows)]
					s.Mids(out, 4, rows)
					for c := range 3 {
						if len(rows) > 0 {
							s.Values(out[1+c:], 4, c, rows)
						}
					}
				}
			}
		})
		b.Run(fmt.Sprintf("rows=%s/arrays", sel.name), func(b *testing.B) {
			b.SetBytes(32)
			for left := b.N; left > 0; left -= benchRows {
				for i := 0; i < len(mids); i += 1900 {
					out = out[:0]
					for k := i; k < min(i+1900, len(mids)); k++ {
						if cols[0][k] >= sel.least {
							out = append(out, mids[k], cols[0][k], cols[1][k], cols[2][k])
						}
					}
				}
			}
		})
	}
}
