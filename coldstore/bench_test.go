package coldstore

import (
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

const benchRows = 1 << 20

// benchFile is a file of benchRows posts and a million of its mids in random order.
func benchFile(b *testing.B, cache int64) (*File, []uint64) {
	r := posts(rand.New(rand.NewPCG(1, 2)), benchRows, 4000)
	f := r.open(b, NewCache(cache))
	rnd := rand.New(rand.NewPCG(3, 4))
	mids := make([]uint64, 1<<20)
	for i := range mids {
		mids[i] = r.mids[rnd.IntN(len(r.mids))]
	}
	b.ResetTimer()
	b.ReportAllocs()
	return f, mids
}

// BenchmarkGet reads all three columns of random rows: from cached pages, and with every page copied out of the
// kernel's cache and checked.
func BenchmarkGet(b *testing.B) {
	for _, mode := range []struct {
		name  string
		cache int64
	}{{"page=cached", 64 << 20}, {"page=resident", 0}} {
		b.Run(mode.name, func(b *testing.B) {
			f, mids := benchFile(b, mode.cache)
			var dst [3]uint64
			for i := range b.N {
				if found, err := f.Get(mids[i&(1<<20-1)], nil, dst[:]); !found || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// BenchmarkGetHotPage reads one page's rows: what decoding costs when it is in the processor's cache.
func BenchmarkGetHotPage(b *testing.B) {
	for _, cols := range [][]int{nil, {1}} {
		b.Run("cols="+strconv.Itoa(len(cols)), func(b *testing.B) {
			f, _ := benchFile(b, 64<<20)
			var mids []uint64
			f.Iterate(0, func(mid uint64, _ []uint64) bool { mids = append(mids, mid); return len(mids) < 1024 })
			var dst [3]uint64
			b.ResetTimer()
			for i := range b.N {
				if found, err := f.Get(mids[i*571&1023], cols, dst[:]); !found || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// BenchmarkBatch reads 20 rows of 20 pages at once.
func BenchmarkBatch(b *testing.B) {
	for _, mode := range []struct {
		name  string
		cache int64
	}{{"page=cached", 64 << 20}, {"page=resident", 0}} {
		b.Run(mode.name, func(b *testing.B) {
			f, mids := benchFile(b, mode.cache)
			batch := make([]lookup, 20)
			for i := range batch {
				batch[i] = lookup{file: f, vals: make([]uint64, 3)}
			}
			for i := range b.N {
				for k := range batch {
					batch[k].mid = mids[(i*len(batch)+k)&(1<<20-1)]
				}
				getBatch(batch)
			}
			if l := batch[0]; !l.found || l.err != nil {
				b.Fatal(l)
			}
		})
	}
}

// BenchmarkIterate reads all rows in order; an operation is one row.
func BenchmarkIterate(b *testing.B) {
	f, _ := benchFile(b, 0)
	var sum uint64
	for left := b.N; left > 0; {
		f.Iterate(0, func(_ uint64, vals []uint64) bool {
			sum += vals[0]
			left--
			return left > 0
		})
	}
}

// BenchmarkVerify checks a whole file, or its checksums alone; an operation is one row.
func BenchmarkVerify(b *testing.B) {
	f, _ := benchFile(b, 0)
	for name, verify := range map[string]func(func(int) error) error{"rows": f.Verify, "sums": f.VerifySums} {
		b.Run(name, func(b *testing.B) {
			for left := b.N; left > 0; left -= benchRows {
				if err := verify(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWrite writes rows; an operation is one row. It reports the size reached.
func BenchmarkWrite(b *testing.B) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 1<<18, 4000)
	fs, dir := vfs.OS(), b.TempDir()
	var size float64
	b.ResetTimer()
	b.ReportAllocs()
	for left, i := b.N, 0; left > 0; left, i = left-len(r.mids), i+1 {
		size = r.write(b, fs, filepath.Join(dir, strconv.Itoa(i))).BytesPerItem()
	}
	b.ReportMetric(size, "B/row")
}

// BenchmarkOpen opens and closes a file of 550 pages.
func BenchmarkOpen(b *testing.B) {
	f, _ := benchFile(b, 0)
	for range b.N {
		g, err := Open(vfs.OS(), f.Name(), nil)
		if err != nil {
			b.Fatal(err)
		}
		g.Close()
	}
}
