//go:build !linux

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// blockUnit is what the numbers of blocks count, in bytes.
func blockUnit(st *unix.Statfs_t) int64 { return int64(st.Bsize) }

// fdatasync is os.File.Sync, which is F_FULLFSYNC on macOS: plain fsync leaves the bytes in the drive's cache there.
func fdatasync(f *os.File, _ int) error { return f.Sync() }

func fsync(f *os.File) error { return f.Sync() }

// uncache is not offered.
func uncache(int, int64, int64) {}

// fallocate is not offered: the caller extends the file only.
func fallocate(int, int64) error { return errors.ErrUnsupported }
