package snapfile

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var sampleImage = format.ImageHeader{Kind: 1, Counter: 2, Block: 5, Lo: 1 << 30, Hi: 1 << 40, Offset: 12345, Items: 77}

// sampleParts is a payload of a size, in two parts.
func sampleParts(n int) [][]byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return [][]byte{b[:n/3], nil, b[n/3:]}
}

func TestImageRoundTrip(t *testing.T) {
	fsys := newFS(t)
	must(t, fsys.MkdirAll(format.ImageDir(testDir)))
	for _, n := range []int{0, 1, 1000, format.ImageChunkLen - 1, format.ImageChunkLen, format.ImageChunkLen + 1, 3*format.ImageChunkLen + 17} {
		parts := sampleParts(n)
		info, err := WriteImage(fsys, testDir, sampleImage, parts...)
		must(t, err)
		img, err := OpenImage(fsys, filepath.Join(format.ImageDir(testDir), info.Name))
		must(t, err)
		if img.ImageInfo != info || img.Length() != uint64(n) {
			t.Errorf("%d bytes: got %+v, want %+v", n, img.ImageInfo, info)
		}
		got := make([]byte, n)
		must(t, img.ReadInto(got))
		if !bytes.Equal(got, bytes.Join(parts, nil)) {
			t.Errorf("%d bytes: payload differs", n)
		}
		must(t, img.Verify())
		if err := img.ReadInto(make([]byte, n+1)); err == nil {
			t.Error("a buffer of the wrong size was taken")
		}
		must(t, img.Close())
	}
	if leaks := fsys.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// readImage reads an image given as bytes.
func readImage(t testing.TB, b []byte) (format.ImageInfo, []byte, error) {
	fsys := newFS(t)
	f, err := fsys.Create(testDir + "/x.hot")
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, err)
	must(t, f.Close())
	img, err := OpenImage(fsys, testDir+"/x.hot")
	if err != nil {
		return format.ImageInfo{}, nil, err
	}
	defer img.Close()
	if img.Length() > uint64(len(b)) {
		t.Fatalf("length %d of a file of %d bytes", img.Length(), len(b))
	}
	payload := make([]byte, img.Length())
	if err := img.ReadInto(payload); err != nil {
		return format.ImageInfo{}, nil, err
	}
	return img.ImageInfo, payload, img.Verify()
}

// imageBytes returns the bytes of an image file.
func imageBytes(t testing.TB, n int) []byte { return imageBytesOf(t, sampleImage, n) }

func imageBytesOf(t testing.TB, h format.ImageHeader, n int) []byte {
	fsys := newFS(t)
	must(t, fsys.MkdirAll(format.ImageDir(testDir)))
	info, err := WriteImage(fsys, testDir, h, sampleParts(n)...)
	must(t, err)
	b, err := vfs.ReadFile(fsys, filepath.Join(format.ImageDir(testDir), info.Name), 1<<30)
	must(t, err)
	return b
}

func TestImageGolden(t *testing.T) {
	golden(t, "v1.hot", imageBytes(t, 200))
	h := sampleImage
	h.Kind = 2
	golden(t, "v2.hot", imageBytesOf(t, h, 200))
}

func TestImageDamage(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	whole := imageBytes(t, 900)
	damagetest.AllFound(t, whole, isDamage, func(b []byte) error {
		_, _, err := readImage(t, b)
		return err
	})
	newer := bytes.Clone(whole)
	newer[8] = format.ImageVersion + 1
	le.PutUint32(newer[76:], format.Checksum(newer[:76]))
	if _, _, err := readImage(t, newer); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Error("want ErrUnsupportedFormat, got", err)
	}
}

func TestImageCrash(t *testing.T) {
	seed := newSeed(t)
	for n := 0; ; n++ {
		fsys := newFS(t)
		must(t, fsys.MkdirAll(format.ImageDir(testDir)))
		must(t, fsys.SyncDir(testDir))
		fsys.CrashAt(fsys.Ops() + n)
		_, err := WriteImage(fsys, testDir, sampleImage, sampleParts(3000)...)
		if err == nil {
			err = fsys.SyncDir(format.ImageDir(testDir))
		}
		if !fsys.Crashed() {
			must(t, err)
		}
		for _, keep := range []int{0, 30, 70, 100} {
			disk := fsys.Crash(seed+uint64(n), keep)
			img, err := OpenImage(disk, filepath.Join(format.ImageDir(testDir), format.ImageName(sampleImage.Block, sampleImage.Offset)))
			if vfs.IsNotExist(err) && fsys.Crashed() {
				continue
			}
			must(t, err) // with its name it is whole
			must(t, img.Verify())
			must(t, img.Close())
		}
		if !fsys.Crashed() {
			return
		}
	}
}

func FuzzImage(f *testing.F) {
	f.Add(imageBytes(f, 0))
	f.Add(imageBytes(f, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= format.ImageHeaderLen { // let the fuzzer past the checksum
			le.PutUint32(b[76:], format.Checksum(b[:76]))
		}
		_, _, err := readImage(t, b)
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat) {
			t.Fatal(err)
		}
	})
}
