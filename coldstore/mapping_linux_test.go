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
