package snapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Image is an open image file whose header, table and size are verified. Methods may be called concurrently, so that
// one image is read by several goroutines, and many images at once.
type Image struct {
	format.ImageInfo
	file   vfs.File
	path   string
	length uint64
	chunk  uint64
	table  []byte // checksum of each chunk
}

// OpenImage opens the image file path. Damage gives a *CorruptError, a version that is not read ErrUnsupportedFormat.
func OpenImage(fsys vfs.FS, path string) (*Image, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	img := &Image{file: file, path: path}
	img.Name = filepath.Base(path)
	if err := img.open(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return img, nil
}

func (img *Image) open() error {
	size, err := img.file.Size()
	if err != nil {
		return err
	}
	if size < format.ImageHeaderLen+format.ImageFooterLen {
		return img.corrupt(0, fmt.Sprintf("an image of at least %d bytes", format.ImageHeaderLen+format.ImageFooterLen), fmt.Sprintf("%d", size))
	}
	b := make([]byte, format.ImageHeaderLen)
	if _, err := img.file.ReadAt(b, 0); err != nil {
		return err
	}
	if string(b[:8]) != format.ImageMagic {
		return img.corrupt(0, fmt.Sprintf("image magic %q", format.ImageMagic), fmt.Sprintf("%q", b[:8]))
	}
	if want, got := binary.LittleEndian.Uint32(b[76:]), format.Checksum(b[:76]); want != got {
		return img.corrupt(76, fmt.Sprintf("header crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v < 1 || v > format.ImageVersion {
		return &format.VersionError{File: img.path, Found: v, Oldest: 1, Newest: format.ImageVersion}
	}
	if binary.LittleEndian.Uint32(b[72:]) != 0 {
		return fmt.Errorf("%s: unknown field set: %w", img.path, format.ErrUnsupportedFormat)
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	img.Kind, img.Counter = binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	img.chunk = uint64(binary.LittleEndian.Uint32(b[20:]))
	img.Block, img.Lo, img.Hi, img.Offset, img.Items, img.length = u64(24), u64(32), u64(40), u64(48), u64(56), u64(64)
	img.Bytes = uint64(size)
	// length is compared before it is calculated with: it may be anything.
	if img.chunk == 0 || img.length > uint64(size) || format.ImageSize(img.length, img.chunk) != size {
		return img.corrupt(64, fmt.Sprintf("a payload that fits %d bytes", size), fmt.Sprintf("length %d, chunk %d", img.length, img.chunk))
	}
	at := format.ImageHeaderLen + int64(img.length)
	end := make([]byte, size-at)
	if _, err := img.file.ReadAt(end, at); err != nil {
		return err
	}
	n := len(end) - format.ImageFooterLen
	footer := end[n:]
	if string(footer[8:16]) != format.ImageEndMagic || binary.LittleEndian.Uint64(footer) != uint64(size) {
		return img.corrupt(at+int64(n), fmt.Sprintf("file size %d and end magic %q", size, format.ImageEndMagic),
			fmt.Sprintf("%d and %q", binary.LittleEndian.Uint64(footer), footer[8:16]))
	}
	img.CRC = binary.LittleEndian.Uint32(footer[16:])
	if got := crc32.Update(format.Checksum(b), format.Castagnoli, end[:n+16]); got != img.CRC {
		return img.corrupt(at, fmt.Sprintf("crc32c of header and table %08x", img.CRC), fmt.Sprintf("%08x", got))
	}
	img.table = end[:n]
	return nil
}

func (img *Image) corrupt(off int64, want, got string) error {
	return &format.CorruptError{File: img.path, Offset: off, Want: want, Got: got}
}

// Length returns the payload's length in bytes.
func (img *Image) Length() uint64 { return img.length }

// ReadInto reads the payload into dst, which must be of its length, and verifies it. Damage gives a *CorruptError; dst
// is then undefined.
func (img *Image) ReadInto(dst []byte) error {
	if uint64(len(dst)) != img.length {
		return fmt.Errorf("image %s: want a buffer of %d bytes, got %d", img.Name, img.length, len(dst))
	}
	for i := 0; len(dst) > 0; i++ {
		n := min(uint64(len(dst)), img.chunk)
		if err := img.readChunk(i, dst[:n]); err != nil {
			return err
		}
		dst = dst[n:]
	}
	return nil
}

// readChunk reads chunk i and checks it while it is in the processor's cache.
func (img *Image) readChunk(i int, dst []byte) error {
	off := format.ImageHeaderLen + int64(i)*int64(img.chunk)
	if _, err := img.file.ReadAt(dst, off); err != nil {
		return err
	}
	if want, got := binary.LittleEndian.Uint32(img.table[4*i:]), format.Checksum(dst); want != got {
		return img.corrupt(off, fmt.Sprintf("chunk crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	return nil
}

// Verify reads the payload through a small buffer and checks it.
func (img *Image) Verify() error {
	buf := make([]byte, min(img.length, img.chunk)) // no more than the file's size
	left := img.length
	for i := 0; left > 0; i++ {
		n := min(left, img.chunk)
		if err := img.readChunk(i, buf[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// Close closes the file.
func (img *Image) Close() error { return img.file.Close() }
