package snapfile

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestImages writes images of several sizes, and one twice: each has its name once it was to have it, and is whole.
func TestImages(t *testing.T) {
	fsys := newFS(t)
	must(t, fsys.MkdirAll(format.ImageDir(testDir)))
	rests := 0
	w := Images{FS: fsys, Dir: testDir, Rest: func() { rests++ }}
	there := func(block uint64) bool {
		img, err := OpenImage(fsys, filepath.Join(format.ImageDir(testDir), format.ImageName(block, sampleImage.Offset)))
		if vfs.IsNotExist(err) {
			return false
		}
		must(t, err)
		must(t, img.Verify())
		must(t, img.Close())
		return true
	}
	write := func(block uint64, n int) {
		h := sampleImage
		h.Block = block
		_, err := w.Write(h, sampleParts(n)...)
		must(t, err)
	}
	for block := range uint64(imagesAtOnce) {
		if there(0) {
			t.Fatalf("the first of %d images is there before they are synced", block)
		}
		write(block, 100)
	}
	if !there(0) || !there(imagesAtOnce-1) {
		t.Error("images are not there that were to be synced")
	}
	write(50, 100)
	write(50, 200)
	write(51, 100)
	rests = 0
	write(52, 2*imageBytesAtOnce)
	if want := 2 * imageBytesAtOnce / (64 << 10); rests < want {
		t.Errorf("%d rests while an image of %d bytes was written, want at least %d", rests, 2*imageBytesAtOnce, want)
	}
	if !there(50) || !there(51) || !there(52) {
		t.Error("images are not there that a large one was written behind")
	}
	write(60, 100)
	w.Abort()
	must(t, w.Flush())
	names, err := fsys.List(format.ImageDir(testDir))
	must(t, err)
	if len(names) != imagesAtOnce+3 {
		t.Errorf("got %d files, want %d", len(names), imagesAtOnce+3)
	}
}

// TestImagesFail: one of many cannot be synced; the others have their names, and nothing is left of it.
func TestImagesFail(t *testing.T) {
	sim := newFS(t)
	must(t, sim.MkdirAll(format.ImageDir(testDir)))
	fsys := vfs.NewFaulty(sim)
	w := Images{FS: fsys, Dir: testDir}
	for block := range uint64(5) {
		h := sampleImage
		h.Block = block
		_, err := w.Write(h, sampleParts(10)...)
		must(t, err)
	}
	fsys.Inject(vfs.Rule{Ops: vfs.OpSync, Glob: format.ImageName(3, sampleImage.Offset) + "*", Every: 1, Err: syscall.EIO})
	if err := w.Flush(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want %v", err, syscall.EIO)
	}
	must(t, w.Flush())
	names, err := sim.List(format.ImageDir(testDir))
	must(t, err)
	if len(names) != 4 {
		t.Errorf("got files %v, want four", names)
	}
}

// TestImagesCrash: with its name an image is whole, wherever many were cut off.
func TestImagesCrash(t *testing.T) {
	seed := newSeed(t)
	for n := 0; ; n++ {
		fsys := newFS(t)
		must(t, fsys.MkdirAll(format.ImageDir(testDir)))
		must(t, fsys.SyncDir(testDir))
		fsys.CrashAt(fsys.Ops() + n)
		w := Images{FS: fsys, Dir: testDir}
		var err error
		for block := uint64(0); block < 20 && err == nil; block++ {
			h := sampleImage
			h.Block = block
			_, err = w.Write(h, sampleParts(50)...)
		}
		if err == nil {
			err = errors.Join(w.Flush(), fsys.SyncDir(format.ImageDir(testDir)))
		}
		if !fsys.Crashed() {
			must(t, err)
		}
		for _, keep := range []int{0, 50, 100} {
			disk := fsys.Crash(seed+uint64(n), keep)
			for block := range uint64(20) {
				img, err := OpenImage(disk, filepath.Join(format.ImageDir(testDir), format.ImageName(block, sampleImage.Offset)))
				if vfs.IsNotExist(err) && fsys.Crashed() {
					continue
				}
				must(t, err)
				must(t, img.Verify())
				must(t, img.Close())
			}
		}
		if !fsys.Crashed() {
			return
		}
	}
}
