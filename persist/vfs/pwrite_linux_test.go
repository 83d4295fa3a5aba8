package vfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPacer has a slow write: none is trusted to be prompt for a while.
func TestPacer(t *testing.T) {
	var w pacer
	if !w.prompt(0) {
		t.Error("no write was slow, and none is prompt")
	}
	w.took(time.Second, time.Second+slowWrite)
	if !w.prompt(time.Second + slowWrite) {
		t.Error("a write at the limit counts as slow")
	}
	ended := 2*time.Second + slowWrite + 1
	w.took(2*time.Second, ended)
	if w.prompt(ended) || w.prompt(ended+slowRest-1) {
		t.Error("prompt right behind a slow write")
	}
	if !w.prompt(ended + slowRest) {
		t.Error("never prompt again")
	}
}

// TestPwrite writes both ways, lengths around the limit between them: the bytes and the errors are the same.
func TestPwrite(t *testing.T) {
	for name, slow := range map[string]bool{"prompt": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			if slow {
				writes.until.Store(int64(time.Since(started) + time.Hour))
				t.Cleanup(func() { writes.until.Store(0) })
			}
			f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var want []byte
			for _, n := range []int{0, 1, 17, shortWrite - 1, shortWrite, shortWrite + 1, 3 * shortWrite} {
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(rand.Uint32())
				}
				if m, err := f.WriteAt(p, int64(len(want))); m != n || err != nil {
					t.Fatalf("%d bytes: wrote %d: %v", n, m, err)
				}
				want = append(want, p...)
			}
			got := make([]byte, len(want))
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("other bytes, or %v", err)
			}
			if _, err := f.WriteAt([]byte("x"), -1); !errors.Is(err, unix.EINVAL) {
				t.Errorf("at -1: %v, want EINVAL", err)
			}
			if n, err := pwrite(-1, []byte("x"), 0); n > 0 || err != unix.EBADF {
				t.Errorf("without a file: %d, %v, want EBADF", n, err)
			}
		})
	}
}
