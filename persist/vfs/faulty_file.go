package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// faultyFile is a file opened through a Faulty.
type faultyFile struct {
	File
	faulty *Faulty
}

// syncFailer is a File that knows what a failed sync does to its bytes.
type syncFailer interface{ failSync() }

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if got := f.faulty.faultOf(OpRead, f.Name()); got.err != nil {
		return 0, &IOError{Op: "read", Name: f.Name(), Off: off, Want: len(p), Err: got.err}
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	got := f.faulty.faultOf(OpWrite, f.Name())
	if got.err == nil {
		return f.File.WriteAt(p, off)
	}
	n := 0
	if got.short {
		var err error
		if n, err = f.File.WriteAt(p[:len(p)/2], off); err != nil {
			return n, err
		}
	}
	return n, &IOError{Op: "write", Name: f.Name(), Off: off, Want: len(p), Done: n, Err: got.err}
}

func (f *faultyFile) Sync() error {
	if err := f.faulty.fail(OpSync, f.Name()); err != nil {
		f.failSync()
		return err
	}
	return f.File.Sync()
}

// failSync passes the failure on, through other Faultys if there are any.
func (f *faultyFile) failSync() {
	if inner, ok := f.File.(syncFailer); ok {
		inner.failSync()
	}
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.faulty.fail(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Preallocate(size int64) error {
	if err := f.faulty.fail(OpPreallocate, f.Name()); err != nil {
		return err
	}
	return f.File.Preallocate(size)
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.faulty.fail(OpSize, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultyFile) Close() error {
	err := f.faulty.fail(OpClose, f.Name())
	return errors.Join(err, f.File.Close())
}

// Map fails for OpMap. For OpMapRead it succeeds, and the first touch of the bytes is a memory fault, as when the disk
// cannot read a mapped page: a panic under debug.SetPanicOnFault, else the end of the process. The rule's Err only
// has to be there.
func (f *faultyFile) Map(size int64) ([]byte, func() error, error) {
	if got := f.faulty.faultOf(OpMap, f.Name()); got.err != nil {
		return nil, nil, &IOError{Op: "map", Name: f.Name(), Want: int(size), Err: got.err}
	}
	data, unmap, err := f.File.Map(size)
	if err != nil || size == 0 || f.faulty.faultOf(OpMapRead, f.Name()).err == nil {
		return data, unmap, err
	}
	bad, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, errors.Join(err, unmap())
	}
	return bad, func() error { return errors.Join(unix.Munmap(bad), unmap()) }, nil
}
