// Scenario: a start with many cold files.

package counter

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var (
	manyFiles = flag.Int("manyfiles", 2000, "cold files of BenchmarkManyFiles")
	manyPosts = flag.Int("manyposts", 2000, "posts in each of them")
	manyDir   = flag.String("manydir", "", "directory of BenchmarkManyFiles, made if it is not there, and kept")
)

// unsynced does not wait for the disk.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string) (vfs.File, error) {
	f, err := u.FS.Create(name)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// makeColdFiles makes a data directory of one counter with so many cold files, of so many posts each. They are not
// open meanwhile.
func makeColdFiles(tb testing.TB, fsys vfs.FS, dir string, files, posts int) {
	s := openDir(tb, dir, Options{FS: fsys, Manual: true}, seedScript)
	ks := s.data.Spaces[1][0]
	stream := newStream(1)
	old := ks.Dir.Load().Blocks[0]
	var blocks []*block.Block
	lo := uint64(0)
	mid := stream.next()
	for range files {
		id := s.data.BlockIDs.Add(1)
		entry := format.BlockFile{Tier: format.TierCold, Block: id, Lo: lo, Name: format.ColdName(id, 0)}
		path := filepath.Join(format.ColdDir(dir), entry.Name)
		mids := make([]uint64, posts)
		for i := range mids {
			mids[i] = mid
			mid = stream.next()
		}
		entry.Hi = mid
		w, err := coldstore.Create(unsynced{fsys}, path, coldstore.Meta{Counter: ks.Def.ID, Lo: lo, Hi: mid, Columns: ks.FileColumns()})
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range mids {
			row := stream.together()
			if err := w.Add(m, row[:]); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := w.Finish(); err != nil {
			tb.Fatal(err)
		}
		f, err := coldstore.Open(fsys, path, nil)
		if err != nil {
			tb.Fatal(err)
		}
		entry.Items, entry.Bytes, entry.CRC = f.Stat().Items, uint64(f.Stat().Bytes), f.Checksum()
		b := &block.Block{Lo: lo, Hi: mid, ID: id}
		b.Cold = &block.ColdRange{File: coldstore.Broken(path, *f.Meta(), entry.Items, os.ErrClosed), Entry: entry}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
		blocks = append(blocks, b)
		s.data.Files.Keep(entry.Name)
		lo = mid
	}
	last, err := ks.Builder.NewBlock(hot.Config{Lo: lo, Hi: hot.EndMid, Buckets: hot.BucketsFor(64, block.GrowLoad), Layout: ks.Layout}, ks.Layout)
	if err != nil {
		tb.Fatal(err)
	}
	s.data.Arena.Free(old.Span)
	ks.Dir.Store(block.NewDirectory(append(blocks, last)))
	if err := s.Snapshot(); err != nil {
		tb.Fatal(err)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkManyFiles starts a store with many cold files, and tells what each costs.
func BenchmarkManyFiles(b *testing.B) {
	dir := *manyDir
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "data")
	}
	if _, err := os.Stat(dir); err != nil {
		began := time.Now()
		makeColdFiles(b, vfs.OS(), dir, *manyFiles, *manyPosts)
		b.Log("made in", time.Since(began))
	}
	began := time.Now()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	rss0 := rss()
	s, err := Open(dir, Options{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds(), "start-s")
	peak := rss()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	bt := s.NewBatch()
	_ = bt.Begin()
	began = time.Now()
	st := s.Admin().Tiers(bt)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "tiers-ms")
	bt.End()
	n := float64(st.ColdBlocks)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/file")
	b.ReportMetric(float64(peak-rss0)/n, "peakrss-B/file")
	b.ReportMetric(float64(st.IndexBytes)/n, "index-B/file")
	b.ReportMetric(float64(st.IndexBytes)/float64(st.ColdItems), "index-B/post")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(st.ColdItems), "heap-B/post")
	for range 2 {
		began = time.Now()
		if err := s.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "snapshot-s")
	began = time.Now()
	s.tiers.MergeAndPromote()
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "look-ms")
	began = time.Now()
	p, err := s.Pins().PinSnapshot()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "pin-ms")
	p.Release()
	began = time.Now()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds(), "close-s")
}
