package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// osFile is a file of the operating system. ReadAt, WriteAt and Sync do not allocate.
//
// mu is held for reading while a call uses the bare descriptor and for writing by Close: a descriptor closed under a
// running write could be opened again by then, and the bytes would land in another file.
type osFile struct {
	mu sync.RWMutex
	f  *os.File
}

var _ File = (*osFile)(nil)

func (o *osFile) Name() string { return o.f.Name() }

func (o *osFile) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.f.Close()
}

// descriptor returns the open descriptor. REQUIRES: mu is held.
func (o *osFile) descriptor() (int, error) {
	fd := int(o.f.Fd())
	if fd < 0 {
		return fd, os.ErrClosed
	}
	return fd, nil
}

// Uncache has the system forget the cached pages of a file, except for pages that are not on the disk yet. It calls pace behind each MB,
// and ends when pace returns an error. Closing a large file without a name does the same in one call of 5 to 9 ms, during which a
// processor does nothing else. Files of other file systems are left alone.
func Uncache(file File, size int64, pace func() error) {
	const piece = 1 << 20
	o, ok := file.(*osFile)
	for off := int64(0); ok && off < size; off += piece {
		o.mu.RLock()
		fd, err := o.descriptor()
		if err == nil {
			uncache(fd, off, piece)
		}
		o.mu.RUnlock()
		if err != nil || pace() != nil {
			return
		}
	}
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.f.ReadAt(p, off) // loops over short reads and EINTR
	if err == nil || err == io.EOF {
		return n, err
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err // IOError has the name
	}
	if off < 0 {
		err = syscall.EINVAL
	}
	return n, &IOError{Op: "read", Name: o.Name(), Off: off, Want: len(p), Done: n, Err: err}
}

// WriteAt does not use os.File.WriteAt, which says 0 after a write that filled the disk halfway.
//
// The write is a plain system call, which the runtime of Go knows of. Any write may wait for its disk without end: on a
// frozen file system, on a network's, or behind too many dirty pages. A call that goes past the runtime (RawSyscall)
// keeps its processor (P) meanwhile, so the next stop of the world, such as the collector's, never comes, and the whole
// process stands still. Such a call would take 10 to 19 % less processor time where few clients send one INCR at a time.
// RWF_NOWAIT of pwritev2(2) does not help: ext4 refuses it for buffered writes, and on a frozen file system it waits too.
func (o *osFile) WriteAt(p []byte, off int64) (int, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	fd, err := o.descriptor()
	n := 0
	for n < len(p) && err == nil {
		var m int
		m, err = unix.Pwrite(fd, p[n:min(len(p), n+maxWrite)], off+int64(n))
		switch {
		case err == unix.EINTR:
			err = nil
		case err == nil && m == 0:
			err = io.ErrShortWrite // POSIX does not exclude it; going on might never end
		}
		n += max(m, 0)
	}
	if err != nil {
		return n, &IOError{Op: "write", Name: o.Name(), Off: off, Want: len(p), Done: n, Err: err}
	}
	return n, nil
}

// maxWrite is the largest single write: macOS refuses 2 GiB, Linux cuts there.
const maxWrite = 1 << 30

func (o *osFile) Sync() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	fd, err := o.descriptor()
	if err == nil {
		err = fdatasync(o.f, fd)
	}
	if err != nil {
		return pathError("sync", o.Name(), err)
	}
	return nil
}

func (o *osFile) Truncate(size int64) error { return o.f.Truncate(size) }

func (o *osFile) Preallocate(size int64) error {
	if size < 0 {
		return pathError("preallocate", o.Name(), syscall.EINVAL)
	}
	old, err := o.Size()
	if err != nil || size == 0 {
		return err
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	fd, err := o.descriptor()
	if err == nil {
		err = fallocate(fd, size)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errors.ErrUnsupported): // EOPNOTSUPP, ENOSYS: some network and old file systems
		if size > old {
			return o.Truncate(size)
		}
		return nil
	}
	// A file system may keep what it got before the disk was full: give it back. The first error is the one to tell.
	if now, serr := o.Size(); serr == nil && now > old {
		_ = o.Truncate(old)
	}
	return pathError("preallocate", o.Name(), err)
}

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (o *osFile) Map(size int64) ([]byte, func() error, error) {
	have, err := o.Size()
	if err != nil {
		return nil, nil, err
	}
	if err := checkMap(o.Name(), size, have); err != nil {
		return nil, nil, err
	}
	if size == 0 { // mmap refuses an empty range
		return nil, func() error { return nil }, nil
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if _, err := o.descriptor(); err != nil {
		return nil, nil, pathError("map", o.Name(), err)
	}
	m, err := mmap.MapRegion(o.f, int(size), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, nil, &IOError{Op: "map", Name: o.Name(), Want: int(size), Err: err}
	}
	return m, func() error {
		if m == nil {
			return os.ErrClosed
		}
		return m.Unmap()
	}, nil
}

// checkMap refuses a map that the file, have bytes long, or the address space cannot serve: a page behind the end
// of the file would be a SIGBUS at its first touch.
func checkMap(name string, size, have int64) error {
	switch {
	case size < 0 || int64(int(size)) != size:
		return pathError("map", name, syscall.EINVAL)
	case size > have:
		return &IOError{Op: "map", Name: name, Want: int(size), Done: int(have), Err: io.ErrUnexpectedEOF}
	}
	return nil
}
