package sinks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/counterd/counterd/internal/atomicfile"
)

// window bounds what can be torn at the end of a file: a batch, of which a reply has 1 MiB, or one change that is larger. The
// largest change has 4 MiB of log. These are 50 MB of JSON, and 60 MB where each part names a counter of 64 bytes.
const window = 128 << 20

// form is the format of a file.
type form interface {
	// head is the beginning of a new file.
	head() []byte
	// tail finds the end of the last whole batch, and the position behind it; empty: there is none. It reads the last window
	// bytes. A *ForeignError says why the file is none of this form.
	tail(f *os.File, size int64) (end int64, position string, err error)
	// pack appends a batch as it is in the file.
	pack(dst []byte, b *Batch) []byte
}

// file is a file of changes, which only grows.
//
// Invariant: all of it up to size is whole batches and durable. Behind it is nothing, or a torn batch, which the next open cuts.
type file struct {
	form
	f        *os.File
	position string
	size     int64
	packed   []byte
}

// openFile opens or creates a file, locks other processes out, and cuts a torn batch off its end.
func openFile(name string, form form) (_ Sink, err error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &ForeignError{name, "it is not a regular file"}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process writes to it")
		}
		return nil, err
	}
	s := &file{form: form, f: f}
	if err := s.recover(name); err != nil {
		return nil, err
	}
	return s, nil
}

// recover makes the invariant hold.
func (s *file) recover(name string) error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	s.size, s.position, err = s.tail(s.f, info.Size())
	if err != nil {
		return err
	}
	if s.size < info.Size() {
		if err := s.f.Truncate(s.size); err != nil {
			return err
		}
	}
	if s.size == 0 {
		if err := s.append(s.head()); err != nil {
			return err
		}
	}
	if err := s.f.Sync(); err != nil { // a killed process may have left the end in the page cache
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(name))
}

func (s *file) Position() string { return s.position }

// Write appends a batch. A full disk may pass; behind a sync that failed it is not known what the disk has.
func (s *file) Write(_ context.Context, b *Batch) error {
	s.packed = s.pack(s.packed[:0], b)
	err := s.append(s.packed)
	if cap(s.packed) > window/8 {
		s.packed = nil
	}
	if err != nil {
		return err
	}
	if err := s.f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	s.position = b.Position()
	return nil
}

func (s *file) append(text []byte) error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < s.size { // a gap of zeros would pass for a torn batch, and all behind it would be cut
		return fmt.Errorf("another process made it shorter: it has %d bytes, want %d. Begin another file with --from and the position that it came to", info.Size(), s.size)
	}
	n, err := s.f.WriteAt(text, s.size)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &BrokenError{err}
	}
	if err != nil {
		return err
	}
	s.size += int64(n)
	return nil
}

// Close gives the lock back.
func (s *file) Close() error { return s.f.Close() }
