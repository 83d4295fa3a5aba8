// Scenario: many goroutines read a cold file that is not in memory from a real disk

package coldstore

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkDisk reads one row, and 20 rows of 20 files at once, with the kernel's cache of the files dropped; and, in
// turns, 4 KiB and 20 times 4 KiB by 20 threads past the kernel's cache, which is what the disk allows. It reports
// medians. The directory of the test must lie on a disk.
func BenchmarkDisk(b *testing.B) {
	const n = 20
	rnd := rand.New(rand.NewPCG(1, 2))
	var files []*File
	var models []*rows
	var raw []int
	for range n {
		r := posts(rnd, 1<<16, 4000)
		f := r.open(b, nil)
		fd, err := unix.Open(f.Name(), unix.O_RDONLY|unix.O_DIRECT, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Fsync(fd); err != nil {
			b.Fatal(err)
		}
		files, models, raw = append(files, f), append(models, r), append(raw, fd)
	}
	drop := func() {
		generation.Add(1)
		for _, f := range files {
			if err := f.Release(); err != nil {
				b.Fatal(err)
			}
			h, err := os.Open(f.Name())
			if err != nil {
				b.Fatal(err)
			}
			_ = unix.Fadvise(int(h.Fd()), 0, 0, unix.FADV_DONTNEED)
			h.Close()
		}
	}
	room, err := unix.Mmap(-1, 0, n*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Munmap(room)
	var wg sync.WaitGroup
	pread := func(i int, off int64) {
		if _, err := unix.Pread(raw[i], room[i*4096:(i+1)*4096], off); err != nil {
			b.Error(err)
		}
	}
	batch := make([]lookup, n)
	vals := make([]uint64, 3*n)
	took := map[string][]float64{}
	measure := func(name string, fn func()) {
		began := time.Now()
		fn()
		took[name] = append(took[name], float64(time.Since(began))/1e3)
	}
	for range b.N {
		for _, k := range []int{1, n} {
			drop()
			for i := range k {
				mids := models[i].mids
				batch[i] = lookup{file: files[i], mid: mids[rnd.IntN(len(mids))], vals: vals[3*i : 3*i+3]}
			}
			measure("rows="+strconv.Itoa(k), func() { getBatch(batch[:k]) })
			for i := range k {
				if batch[i].err != nil || !batch[i].found {
					b.Fatal(batch[i])
				}
			}
		}
		var offs [n]int64
		for i := range offs {
			offs[i] = int64(rnd.IntN(files[i].f.pages-1)) * 4096
		}
		measure("disk=1", func() { pread(0, offs[0]) })
		measure("disk=20", func() {
			for i := range n {
				wg.Go(func() { pread(i, offs[i]) })
			}
			wg.Wait()
		})
	}
	p50 := func(name string) float64 {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	for _, name := range []string{"rows=1", "rows=20", "disk=1", "disk=20"} {
		b.ReportMetric(p50(name), name+"-us")
	}
	b.ReportMetric(p50("rows=20")/p50("rows=1"), "rows-20/1")
	b.ReportMetric(p50("disk=20")/p50("disk=1"), "disk-20/1")
}
