package role

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// badDisk is a file of which the disk cannot read some bytes. Reads that begin before them are short, as the kernel's
// are.
type badDisk struct {
	*bytes.Reader
	content []byte
	lo, hi  int64
}

func (d *badDisk) ReadAt(b []byte, off int64) (int, error) {
	switch {
	case off >= d.lo && off < d.hi:
		return 0, syscall.EIO
	case off < d.lo && off+int64(len(b)) > d.lo:
		b = b[:d.lo-off]
	}
	return bytes.NewReader(d.content).ReadAt(b, off)
}

func (d *badDisk) Read(b []byte) (int, error) {
	at, _ := d.Seek(0, io.SeekCurrent)
	n, err := d.ReadAt(b, at)
	if n > 0 {
		err = nil
	}
	_, _ = d.Seek(int64(n), io.SeekCurrent)
	return n, err
}

// TestCopyFile sends files of which the disk cannot read a part. Of a cold file all comes but the units with bad bytes,
// which are zeros; of an image, and of a file that turns out shorter, nothing that could be taken for it.
func TestCopyFile(t *testing.T) {
	racetest.Skip(t, "one goroutine copies, and each byte is checked")
	content := make([]byte, 9<<20+5000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(1 + r.IntN(255))
	}
	size := int64(len(content))
	for _, c := range []struct{ lo, hi int64 }{
		{0, 0}, {0, 1}, {0, size}, {4096, 8192}, {5000, 5001}, {4<<20 - 1, 4<<20 + 1}, {4 << 20, 4<<20 + 100_000}, {size - 1, size}, {size - 5000, size},
	} {
		for _, holes := range []bool{true, false} {
			var got bytes.Buffer
			file := &badDisk{bytes.NewReader(content), content, c.lo, c.hi}
			err := copyFile(file, size, holes, func(part io.Reader) (int64, error) { return io.Copy(&got, part) })
			bad := c.lo < c.hi
			if !holes && bad {
				if !errors.Is(err, syscall.EIO) || int64(got.Len()) != c.lo {
					t.Errorf("[%d,%d) of an image: %d bytes, %v", c.lo, c.hi, got.Len(), err)
				}
				continue
			}
			if err != nil || int64(got.Len()) != size {
				t.Fatalf("[%d,%d): %d of %d bytes, %v", c.lo, c.hi, got.Len(), size, err)
			}
			for i, b := range got.Bytes() {
				hole := bad && int64(i) >= c.lo && int64(i)/holeSize <= (c.hi-1)/holeSize
				if hole && b != 0 || !hole && b != content[i] {
					t.Fatalf("[%d,%d): byte %d is %d, want %d or a hole: %v", c.lo, c.hi, i, b, content[i], hole)
				}
			}
		}
	}
	file := &badDisk{bytes.NewReader(content), content, 0, 0}
	for _, holes := range []bool{true, false} {
		if err := copyFile(file, size+1, holes, func(part io.Reader) (int64, error) { return io.Copy(io.Discard, part) }); err == nil {
			t.Error("a file that is shorter than announced was sent without an error")
		}
	}
}
