package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync makes data and size durable. fsync would write the time stamps as well: one more journal commit.
func fdatasync(_ *os.File, fd int) error {
	if err := syncParked(fd, iocbFdsync); err != errNoAIO {
		return err
	}
	for {
		if err := unix.Fdatasync(fd); err != unix.EINTR {
			return err
		}
	}
}

// fsync is os.File.Sync, without a thread that waits.
func fsync(f *os.File) error {
	if err := syncParked(int(f.Fd()), iocbFsync); err != errNoAIO {
		return err
	}
	return f.Sync()
}

// blockUnit is what the numbers of blocks count, in bytes. On some network file systems Bsize is the best size of a
// transfer.
func blockUnit(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return st.Frsize
	}
	return st.Bsize
}

// fallocate reserves the blocks of the first size bytes and extends the file to size.
func fallocate(fd int, size int64) error {
	for {
		if err := unix.Fallocate(fd, 0, 0, size); err != unix.EINTR {
			return err
		}
	}
}

// Unload takes what File.Map has mapped out of the process's memory, until it is read again. The pages stay in the
// kernel's cache.
func (osFS) Unload(mapped []byte) error { return unix.Madvise(mapped, unix.MADV_DONTNEED) }
