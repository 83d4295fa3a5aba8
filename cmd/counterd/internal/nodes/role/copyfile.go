package role

import (
	"bytes"
	"io"
)

// copyFile gives size bytes of a file to put, piece by piece. holes: zeros stand for bytes that the disk cannot read,
// in the units in which a disk fails; no checksum of a cold file fits them, so the replica knows those posts for lost,
// as this node does, and gets all others.
func copyFile(file readable, size int64, holes bool, put func(part io.Reader) (int64, error)) error {
	for left := size; left > 0; {
		n, err := put(io.LimitReader(file, min(left, 4<<20)))
		left -= n
		if err != nil && left > 0 && holes && unreadable(file, size-left) {
			hole := min(left, holeSize-(size-left)%holeSize)
			n, err = put(bytes.NewReader(make([]byte, hole)))
			if left -= n; err == nil {
				_, err = file.Seek(size-left, io.SeekStart)
			}
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readable is the part of a file that copyFile uses.
type readable interface {
	io.ReadSeeker
	io.ReaderAt
}

// holeSize is how many bytes are left out where a disk cannot read: its smallest unit, and the smallest page of a cold
// file.
const holeSize = 4096

// unreadable tells whether the disk cannot read a file at an offset.
func unreadable(file io.ReaderAt, at int64) bool {
	var b [1]byte
	_, err := file.ReadAt(b[:], at)
	return err != nil && err != io.EOF
}
