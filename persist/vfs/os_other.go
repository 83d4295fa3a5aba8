//go:build !linux

package vfs

import (
	"errors"
	"os"
)

// fdatasync is os.File.Sync, which is F_FULLFSYNC on macOS: plain fsync leaves the bytes in the drive's cache there.
func fdatasync(f *os.File, _ int) error { return f.Sync() }

// fallocate is not offered: the caller extends the file only.
func fallocate(int, int64) error { return errors.ErrUnsupported }
