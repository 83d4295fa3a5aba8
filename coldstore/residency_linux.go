package coldstore

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseWillNeed starts reading b, whole pages of a mapping, and does not wait.
func adviseWillNeed(b []byte) { _ = unix.Madvise(b, unix.MADV_WILLNEED) }

// adviseRandom makes a fault on b read one page, not the 32 around it.
func adviseRandom(b []byte) { _ = unix.Madvise(b, unix.MADV_RANDOM) }

// inMemory says whether the first page of b is in memory. If the kernel does not say, it is.
func inMemory(b []byte) bool {
	var vec [1]byte
	_, _, errno := unix.RawSyscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(b))), 1, uintptr(unsafe.Pointer(&vec)))
	return errno != 0 || vec[0]&1 == 1
}
