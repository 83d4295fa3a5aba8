package vfs

import (
	"io"
	"os"
	"unsafe"

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

// uncache has the kernel forget the cached pages of a part of a file, except for pages that are not on the disk yet.
func uncache(fd int, off, n int64) { _ = unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) }

// Unload takes what File.Map has mapped out of the process's memory, until it is read again. The pages stay in the
// kernel's cache.
func (osFS) Unload(mapped []byte) error { return unix.Madvise(mapped, unix.MADV_DONTNEED) }

// UnloadAll is Unload of up to 1024 in one call, which interrupts the other processors once (process_madvise(2), of
// Linux 6.13 on). On an error some may be unloaded.
func (osFS) UnloadAll(mapped [][]byte) error {
	const self = -10000 // PIDFD_SELF_THREAD
	pid := self
	list := make([]unix.Iovec, len(mapped))
	total := 0
	for i, m := range mapped {
		list[i].Base = unsafe.SliceData(m)
		list[i].SetLen(len(m))
		total += len(m)
	}
	if len(list) == 0 {
		return nil
	}
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pid), uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)), unix.MADV_DONTNEED, 0, 0)
	switch {
	case errno != 0:
		return errno
	case int(n) < total:
		return io.ErrShortWrite
	}
	return nil
}
