package coldstore

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/coldtest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
)

// newRand returns a random source and prints the seed that replays it.
func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}

// rows is the plain model of a file: what a reader must give back.
type rows struct {
	meta Meta
	mids []uint64
	vals [][]uint64 // by row
}

// metaOf makes a Meta over all mids whose columns have the given maxima.
func metaOf(max ...uint8) Meta {
	m := Meta{Counter: 7, Lo: 0, Hi: MaxMid + 1, Offset: 123456789}
	for i, b := range max {
		m.Columns = append(m.Columns, Column{ID: uint16(3*i + 1), Max: b, Default: uint64(i) & 1})
	}
	return m
}

// write makes a file of r and opens it.
func (r *rows) write(t testing.TB, fs vfs.FS, name string) Stats {
	t.Helper()
	w, err := Create(fs, name, r.meta)
	if err != nil {
		t.Fatal(err)
	}
	for i, mid := range r.mids {
		if err := w.Add(mid, r.vals[i]); err != nil {
			t.Fatal(err)
		}
	}
	st, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	return st
}

func (r *rows) open(t testing.TB, cache *Cache) *File {
	t.Helper()
	fs, name := vfs.OS(), filepath.Join(t.TempDir(), "block.cold")
	r.write(t, fs, name)
	f, err := Open(fs, name, cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// ofGroup makes all mids those of one group of hash slots, about where they were.
func (r *rows) ofGroup(group uint8) *rows {
	r.meta.OneGroup, r.meta.Group = true, group
	for i, mid := range r.mids {
		if i > 0 {
			mid = max(mid, r.mids[i-1]+1)
		}
		if mid = slot.Least(group, mid); mid > MaxMid {
			r.mids, r.vals = r.mids[:i], r.vals[:i]
			break
		}
		r.mids[i] = mid
	}
	return r
}

// addRandom appends n rows of a random kind of mids and values.
func (r *rows) addRandom(rnd *rand.Rand, n int) {
	gap := coldtest.Gaps(rnd)
	value := make([]func() uint64, len(r.meta.Columns))
	for i, c := range r.meta.Columns {
		value[i] = coldtest.Values(rnd, c.Max)
	}
	quiet := rnd.Float64() // share of rows that are all default
	mid := rnd.Uint64N(1 << 40)
	if len(r.mids) > 0 {
		mid = r.mids[len(r.mids)-1] + gap()
	} else if rnd.IntN(2) == 0 {
		mid = 0
	}
	for range n {
		if mid > MaxMid {
			return
		}
		row := make([]uint64, len(value))
		if rnd.Float64() >= quiet {
			for i := range row {
				row[i] = value[i]()
			}
		}
		r.mids, r.vals = append(r.mids, mid), append(r.vals, row)
		mid += gap()
	}
	if rnd.IntN(4) == 0 && r.mids[len(r.mids)-1] < MaxMid {
		r.mids, r.vals = append(r.mids, MaxMid), append(r.vals, make([]uint64, len(value)))
	}
}

// Posts makes n rows like real ones: three columns, exponential gaps, 86 % of the rows all zero.
func posts(rnd *rand.Rand, n int, gap float64) *rows {
	r := &rows{meta: metaOf(32, 32, 32)}
	mid := uint64(3655529446300818)
	for range n {
		row := make([]uint64, 3)
		if rnd.IntN(100) >= 86 {
			for i := range row {
				row[i] = coldtest.PostValue(rnd)
			}
		}
		r.mids, r.vals = append(r.mids, mid), append(r.vals, row)
		mid += 1 + uint64(rnd.ExpFloat64()*gap)
	}
	return r
}

// check compares everything a reader can ask of f with the model.
func (r *rows) check(t testing.TB, rnd *rand.Rand, f *File) {
	t.Helper()
	st := f.Stat()
	if st.Items != uint64(len(r.mids)) {
		t.Fatalf("%d items, want %d", st.Items, len(r.mids))
	}
	r.checkIterate(t, f, 0, 0)
	dst := make([]uint64, len(r.meta.Columns))
	step := 1 + len(r.mids)/2000
	for i := rnd.IntN(step); i < len(r.mids); i += 1 + rnd.IntN(step) {
		mid := r.mids[i]
		if found, err := f.Get(mid, nil, dst); err != nil || !found || !equal(dst, r.vals[i]) {
			t.Fatalf("Get(%d) = %d, %v, %v, want %d", mid, dst, found, err, r.vals[i])
		}
		col := rnd.IntN(len(dst))
		var one [1]uint64
		if found, err := f.Get(mid, []int{col}, one[:]); err != nil || !found || one[0] != r.vals[i][col] {
			t.Fatalf("Get(%d, column %d) = %d, %v, %v, want %d", mid, col, one, found, err, r.vals[i][col])
		}
		// Its neighbours are there only if they are rows.
		for _, near := range []uint64{mid - 1, mid + 1, mid ^ 1<<rnd.IntN(63)} {
			want := r.has(near)
			if found, err := f.Get(near, nil, dst); err != nil || found != want {
				t.Fatalf("Get(%d) beside %d = %v, %v, want %v", near, mid, found, err, want)
			}
		}
	}
	for range 3 {
		if n := len(r.mids); n > 0 {
			i := rnd.IntN(n)
			r.checkIterate(t, f, r.mids[i], i)
			r.checkIterate(t, f, r.mids[i]+1, i+1)
		}
	}
	if err := f.Verify(nil); err != nil {
		t.Fatal(err)
	}
}

func (r *rows) checkIterate(t testing.TB, f *File, from uint64, i int) {
	t.Helper()
	err := f.Iterate(from, func(mid uint64, vals []uint64) bool {
		if i >= len(r.mids) || mid != r.mids[i] || !equal(vals, r.vals[i]) {
			t.Fatalf("row %d of %d is %d %d", i, len(r.mids), mid, vals)
		}
		i++
		return true
	})
	if err != nil || i != len(r.mids) {
		t.Fatalf("iteration ended at row %d of %d: %v", i, len(r.mids), err)
	}
}

func (r *rows) has(mid uint64) bool {
	lo, hi := 0, len(r.mids)
	for lo < hi {
		if m := (lo + hi) / 2; r.mids[m] < mid {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo < len(r.mids) && r.mids[lo] == mid
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestRoundTrip writes random files of random schemas and compares all that can be read with the rows.
func TestRoundTrip(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	cache := NewCache(1 << 20)
	for range 20 {
		cols := 1 + rnd.IntN(6)
		if rnd.IntN(8) == 0 {
			cols = 1 + rnd.IntN(60)
		}
		if rnd.IntN(30) == 0 {
			cols = MaxColumns
		}
		max := make([]uint8, cols)
		for i := range max {
			max[i] = uint8(1 + rnd.IntN(64))
		}
		r := &rows{meta: metaOf(max...)}
		n := 1 + int(rnd.Uint64()>>(48+rnd.IntN(16)))
		n = min(n, 150000/(cols+3))
		for left := n; left > 0; { // several regimes in one file
			k := 1 + rnd.IntN(left)
			r.addRandom(rnd, k)
			if left -= k; r.mids[len(r.mids)-1] == MaxMid {
				break
			}
		}
		if rnd.IntN(2) == 0 {
			r.ofGroup(uint8(rnd.IntN(slot.Groups)))
		}
		r.check(t, rnd, r.open(t, cache))
	}
}

// TestUniform has mids that are uniform in all 63 bits.
func TestUniform(t *testing.T) {
	rnd := newRand(t)
	r := &rows{meta: metaOf(64, 1)}
	for i := range uint64(20000) {
		r.mids = append(r.mids, i*(1<<63/20000)+rnd.Uint64N(1<<63/20000))
		r.vals = append(r.vals, []uint64{rnd.Uint64(), rnd.Uint64() & 1})
	}
	f := r.open(t, NewCache(1<<20))
	r.check(t, rnd, f)
	if got, want := f.Stat().BytesPerItem(), (float64(bits.Len(1<<63/20000))+2+65)/8*1.02; got > want {
		t.Errorf("%.2f bytes a row, want at most %.2f", got, want)
	}
}

// TestSmall covers files of no row, one row, and the ends of the range.
func TestSmall(t *testing.T) {
	rnd := newRand(t)
	for _, mids := range [][]uint64{{}, {0}, {MaxMid}, {0, MaxMid}, {5, 6}, {0, 1, MaxMid - 1, MaxMid}} {
		r := &rows{meta: metaOf(64, 8)}
		for i, m := range mids {
			r.mids, r.vals = append(r.mids, m), append(r.vals, []uint64{^uint64(0) - uint64(i), 255})
		}
		f := r.open(t, nil)
		r.check(t, rnd, f)
		for _, m := range []uint64{0, 4, 7, 1 << 62, MaxMid, ^uint64(0)} {
			if found, err := f.Get(m, nil, make([]uint64, 2)); err != nil || found != r.has(m) {
				t.Errorf("Get(%d) of %d = %v, %v", m, mids, found, err)
			}
		}
	}
}

// TestSize holds the goals: 2.4 bytes a post with everything on the dense stream, also in small blocks, and at most
// 0.1 bytes of memory a row for the index of any schema of up to 60 columns, and for the bounds
// 0.3 % of real posts' bytes.
func TestSize(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	for _, n := range []int{1 << 14, 1 << 16, 1 << 18} {
		st := posts(rnd, n, 4000).write(t, vfs.NewSim(), "posts")
		bits := func(b int64) float64 { return float64(8*b) / float64(n) }
		t.Logf("posts: %v; bits a row: mids %.2f, presence %.2f, columns %.2f, page heads %.2f, padding %.2f; index %.4f bytes, %.4f of them bounds", st,
			bits(st.MidBytes), bits(st.PresenceBytes), bits(st.ColumnBytes), bits(st.PageHeadBytes), bits(st.PaddingBytes), float64(st.IndexBytes)/float64(n), float64(st.BoundBytes)/float64(n))
		if share := float64(st.BoundBytes) / float64(st.Bytes); share > 0.003 {
			t.Errorf("bounds are %.4f of the file, want at most 0.003", share)
		}
		if st.BytesPerItem() > 2.4 {
			t.Errorf("%.3f bytes a post, want at most 2.4", st.BytesPerItem())
		}
	}
	for _, cols := range []int{1, 3, 60} {
		max := make([]uint8, cols)
		for i := range max {
			max[i] = 64
		}
		r := &rows{meta: metaOf(max...)}
		for i := range uint64(4000) {
			row := make([]uint64, cols)
			for k := range row {
				row[k] = rnd.Uint64()
			}
			r.mids, r.vals = append(r.mids, i*(MaxMid/4000)+rnd.Uint64N(MaxMid/4000)), append(r.vals, row)
		}
		st := r.write(t, vfs.NewSim(), "random")
		t.Logf("%d random columns: %v", cols, st)
		if index := float64(st.IndexBytes-st.BoundBytes) / 4000; index > 0.1 {
			t.Errorf("%d random columns: index of %.3f bytes a row, want at most 0.1", cols, index)
		}
		if share := float64(st.BoundBytes) / float64(st.Bytes); share > 0.01 {
			t.Errorf("%d random columns: bounds are %.4f of the file, want at most 0.01", cols, share)
		}
		if raw := float64(8*cols + 8); st.BytesPerItem() > raw*1.02 {
			t.Errorf("%d random columns: %.1f bytes a row, raw %.0f", cols, st.BytesPerItem(), raw)
		}
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
