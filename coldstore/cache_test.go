package coldstore

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestCacheBound reads several files through small caches: the bytes held stay under the limit and add up, the
// counters too.
func TestCacheBound(t *testing.T) {
	rnd := newRand(t)
	for _, limit := range []int64{0, entryBytes(12), 64 << 10, 1 << 20} {
		cache := NewCache(limit)
		var files []*File
		var models []*rows
		for range 3 {
			r := posts(rnd, 20000, 4000)
			files, models = append(files, r.open(t, cache)), append(models, r)
		}
		var dst [3]uint64
		const reads = 3000
		for range reads {
			k := rnd.IntN(3)
			i := rnd.IntN(len(models[k].mids))
			if found, err := files[k].Get(models[k].mids[i], nil, dst[:]); !found || err != nil || !equal(dst[:], models[k].vals[i]) {
				t.Fatal(found, err)
			}
		}
		st := cache.Stats()
		var used int64
		for i := range cache.shards {
			s := &cache.shards[i]
			if s.used > s.limit {
				t.Errorf("limit %d: a shard holds %d of %d bytes", limit, s.used, s.limit)
			}
			used += s.used
		}
		if st.Bytes != used || st.Bytes > limit || st.Hits+st.Misses != reads || st.PageReads != st.Misses || st.Bytes != int64(st.Pages)*entryBytes(12) {
			t.Errorf("limit %d: %+v", limit, st)
		}
		if (limit > 0) != (st.Hits > 0) {
			t.Errorf("limit %d: %d hits", limit, st.Hits)
		}
		cache.SetLimit(limit / 2)
		if got := cache.Stats().Bytes; got > limit/2 {
			t.Errorf("%d bytes after SetLimit(%d)", got, limit/2)
		}
		for _, f := range files {
			f.Close()
		}
		if st := cache.Stats(); st.Bytes != 0 || st.Pages != 0 {
			t.Errorf("all files closed: %+v", st)
		}
	}
}

// TestCacheKeepsHot: CLOCK keeps a page that is read between the passes of the hand while others go by.
func TestCacheKeepsHot(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 100000, 4000)
	cache := NewCache(16 << 12) // 16 pages of 50, one shard
	f := r.open(t, cache)
	var dst [3]uint64
	for _, first := range f.index { // each page once, and the first one in between
		f.Get(first, nil, dst[:])
		f.Get(r.mids[0], nil, dst[:])
	}
	st := cache.Stats()
	if want := uint64(f.Stat().Pages); st.Misses != want {
		t.Errorf("%d page reads, want each of the %d pages once", st.Misses, want)
	}
}

// TestNoAlloc: point reads and batches allocate nothing, from cached pages or not.
func TestNoAlloc(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 20000, 4000)
	for _, limit := range []int64{0, 16 << 10, 1 << 20} {
		f := r.open(t, NewCache(limit))
		var dst [3]uint64
		cols := []int{2}
		batch := make([]lookup, 20)
		for i := range batch {
			batch[i] = lookup{file: f, mid: r.mids[i*1000], vals: make([]uint64, 3)}
		}
		getBatch(batch)
		i := 0
		if n := testing.AllocsPerRun(2000, func() {
			i += 977
			f.Get(r.mids[i%len(r.mids)], nil, dst[:])
			f.Get(r.mids[i%len(r.mids)]+1, nil, dst[:])
			f.Get(r.mids[i%len(r.mids)], cols, dst[:1])
		}); n != 0 {
			t.Errorf("cache of %d: Get allocates %.1f times", limit, n)
		}
		if n := testing.AllocsPerRun(100, func() { getBatch(batch) }); n != 0 {
			t.Errorf("cache of %d: a batch allocates %.1f times", limit, n)
		}
	}
}

// prefetchFS counts what a batch asks for ahead, and what it had asked for when it first read.
type prefetchFS struct {
	vfs.FS
	asked []int64
}

func (p *prefetchFS) Prefetch(_ string, off, _ int64) error {
	p.asked = append(p.asked, off)
	return nil
}

// TestPrefetch: a batch asks for each page that is neither cached nor believed resident, of all its files; a new
// generation makes it ask again.
func TestPrefetch(t *testing.T) {
	fs := &prefetchFS{FS: vfs.NewSim()}
	r := posts(rand.New(rand.NewPCG(1, 2)), 20000, 4000)
	var files []*File
	for _, name := range []string{"a", "b"} {
		r.write(t, fs, name)
		f, err := Open(fs, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	var batch []lookup
	for _, f := range files {
		for _, first := range f.index[:5] {
			batch = append(batch, lookup{file: f, mid: first, vals: make([]uint64, 3)})
		}
	}
	read := func() int {
		fs.asked = nil
		getBatch(batch)
		for _, l := range batch {
			if l.err != nil || !l.found {
				t.Fatal(l.err)
			}
		}
		return len(fs.asked)
	}
	if n := read(); n != 10 {
		t.Errorf("first batch asked for %d pages, want 10", n)
	}
	before := generation.Load()
	if n := read(); n != 0 && generation.Load() == before { // a slow machine may start a generation
		t.Errorf("second batch asked for %d pages, want 0", n)
	}
	generation.Add(1)
	if n := read(); n < 10 {
		t.Errorf("after a new generation it asked for %d pages, want 10", n)
	}
	generation.Add(1)
	fs.asked = nil
	for _, mid := range []uint64{batch[0].mid, batch[1].mid, 0} {
		files[0].Prefetch(files[0].Locate(mid))
	}
	if len(fs.asked) != 2 {
		t.Errorf("Ask asked for %d pages, want 2", len(fs.asked))
	}
}

// TestInput: calls that break the rules get ErrInput and change nothing.
func TestInput(t *testing.T) {
	fs := vfs.NewSim()
	good := metaOf(8, 64)
	good.Lo, good.Hi = 10, 100
	for i, change := range []func(m *Meta){
		func(m *Meta) { m.Lo = m.Hi },
		func(m *Meta) { m.Hi = MaxMid + 2 },
		func(m *Meta) { m.Columns = nil },
		func(m *Meta) { m.Columns = make([]Column, MaxColumns+1) },
		func(m *Meta) { m.Columns[0].Max = 65 },
		func(m *Meta) { m.Columns[0].Max = 0 },
		func(m *Meta) { m.Columns[0].Default = 256 },
		func(m *Meta) { m.Columns[1].ID = m.Columns[0].ID },
	} {
		m := good
		m.Columns = append([]Column(nil), good.Columns...)
		change(&m)
		if _, err := Create(fs, "bad", m); !errors.Is(err, ErrInput) {
			t.Errorf("meta %d: %v", i, err)
		}
	}
	if names, _ := fs.List("."); len(names) > 0 {
		t.Errorf("%v is left", names)
	}
	w, err := Create(fs, "good", good)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(20, []uint64{255, 1}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		mid  uint64
		vals []uint64
	}{{9, []uint64{1, 1}}, {100, []uint64{1, 1}}, {20, []uint64{1, 1}}, {19, []uint64{1, 1}}, {21, []uint64{1}}, {21, []uint64{256, 1}}} {
		if err := w.Add(bad.mid, bad.vals); !errors.Is(err, ErrInput) {
			t.Errorf("Add(%d, %d): %v", bad.mid, bad.vals, err)
		}
	}
	if st, err := w.Finish(); err != nil || st.Items != 1 {
		t.Fatal(st, err)
	}
	if _, err := w.Finish(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Finish: %v", err)
	}
	f, err := Open(fs, "good", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, q := range []struct {
		cols []int
		room int
	}{{nil, 1}, {[]int{0, 1}, 1}, {[]int{2}, 1}, {[]int{-1}, 1}} {
		if _, err := f.Get(20, q.cols, make([]uint64, q.room)); !errors.Is(err, ErrInput) {
			t.Errorf("Get of %v into %d: %v", q.cols, q.room, err)
		}
	}
	if pos, ok := f.Meta().Column(4); pos != 1 || !ok {
		t.Errorf("Column(4) = %d, %v", pos, ok)
	}
}
