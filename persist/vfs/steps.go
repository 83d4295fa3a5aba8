package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// IsNotExist tells whether an error says that a file does not exist.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// RemoveIfThere removes a file; that it is missing is no error.
func RemoveIfThere(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil && !IsNotExist(err) {
		return err
	}
	return nil
}

// TruncateTo cuts a file that is longer than size, durably, also where a process cut it that was killed too soon.
func TruncateTo(fsys FS, path string, size int64) error {
	f, err := fsys.OpenRW(path)
	if err != nil {
		return err
	}
	have, err := f.Size()
	if err == nil && have > size {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ListDir lists a directory that may be missing.
func ListDir(fsys FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if IsNotExist(err) {
		return nil, nil
	}
	return names, err
}

// ReadAtMost fills b from off and returns what the file has of it.
func ReadAtMost(f File, b []byte, off int64) ([]byte, error) {
	n, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

const sameWindow = 1 << 20 // bytes compared at a time

// SameContent tells whether two files hold the same bytes.
func SameContent(fsys FS, a, b string) (same bool, err error) {
	var files [2]File
	var sizes [2]int64
	for i, path := range []string{a, b} {
		file, err := fsys.Open(path)
		if err != nil {
			return false, err
		}
		defer file.Close() // only read
		files[i] = file
		if sizes[i], err = file.Size(); err != nil {
			return false, err
		}
	}
	if sizes[0] != sizes[1] {
		return false, nil
	}
	x, y := make([]byte, sameWindow), make([]byte, sameWindow)
	for off := int64(0); off < sizes[0]; off += sameWindow {
		p, err := ReadAtMost(files[0], x, off)
		if err != nil {
			return false, err
		}
		q, err := ReadAtMost(files[1], y, off)
		if err != nil || !bytes.Equal(p, q) {
			return false, err
		}
	}
	return true, nil
}

// ReadOnly is the error of a change to a file that is never changed.
func ReadOnly(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }
