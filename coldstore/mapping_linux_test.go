package coldstore

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDescriptors: open files, read or not, keep no descriptor.
func TestNoDescriptors(t *testing.T) {
	open := func(dir string) (n int) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if to, _ := os.Readlink(filepath.Join("/proc/self/fd", name.Name())); strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	r := posts(rand.New(rand.NewPCG(1, 2)), 3000, 4000)
	f := r.open(t, nil)
	dst := make([]uint64, 3)
	if found, err := f.Get(r.mids[7], nil, dst); !found || err != nil {
		t.Fatal(found, err)
	}
	if err := errors.Join(f.Verify(nil), f.Iterate(0, func(uint64, []uint64) bool { return false })); err != nil {
		t.Fatal(err)
	}
	if n := open(filepath.Dir(f.Name())); n > 0 {
		t.Errorf("%d descriptors of the file are open", n)
	}
}

// TestMappedBytesBounded: what counts as the process's memory for pages that are read where they are mapped stays near
// the limit, and all of them can be read again. Not in parallel: the limit is the process's.
func TestMappedBytesBounded(t *testing.T) {
	const most = 2 << 20
	r := &rows{meta: metaOf(64, 64, 64)}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 450_000 { // 11 MB
		r.mids, r.vals = append(r.mids, uint64(i)), append(r.vals, []uint64{rnd.Uint64(), rnd.Uint64(), rnd.Uint64()})
	}
	f := r.open(t, nil)
	before, known := mappedBytes()
	if !known {
		t.Skip("no /proc")
	}
	was := mapped.budget.beside
	mapped.budget.beside = before
	LimitMapped(most)
	defer func() {
		LimitMapped(0)
		mapped.budget.beside = was
	}()
	dst := make([]uint64, 3)
	read := func() {
		for i := 0; i < len(r.mids); i += 50 { // each page once or twice
			if found, err := f.Get(r.mids[i], nil, dst); !found || err != nil || dst[1] != r.vals[i][1] {
				t.Fatalf("row %d: got %v %v %v", i, found, dst, err)
			}
		}
	}
	released := mapped.budget.releases.Load()
	for range 3 {
		read()
	}
	if now, _ := mappedBytes(); now > before+3*most || mapped.budget.releases.Load() == released {
		t.Errorf("%d bytes count for pages of files after %d releases, want %d at most", now-before, mapped.budget.releases.Load()-released, 3*most)
	}
}
