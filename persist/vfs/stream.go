package vfs

import (
	"errors"
	"io"
)

// Stream reads a file from its beginning to the end that it had when it was opened. Of a file of the operating system it
// hands out the os.File, which the kernel can send to a socket without a copy.
type Stream struct {
	Streamer
	file File
	size int64
}

// Streamer is what reads a file.
type Streamer interface {
	io.ReadSeeker
	io.ReaderAt
}

// OpenStream opens a file for reading only.
func OpenStream(fsys FS, name string) (*Stream, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &Stream{file: file, size: size, Streamer: io.NewSectionReader(file, 0, size)}
	if f, ok := file.(*osFile); ok {
		s.Streamer = f.f
	}
	return s, nil
}

// Size is the size that the file had when it was opened.
func (s *Stream) Size() int64 { return s.size }

// Close closes the file.
func (s *Stream) Close() error { return s.file.Close() }
