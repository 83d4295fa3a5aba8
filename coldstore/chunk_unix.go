//go:build unix

package coldstore

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newChunk returns memory of the kernel's for a chunk, all zeros; nil if there is none. Huge pages begin at multiples of
// their size: as much again is mapped, and the parts around are given back.
func newChunk(huge bool) []byte {
	size := chunkBytes
	if huge {
		size = 2 * chunkBytes
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	if huge {
		before := -uintptr(base) & (chunkBytes - 1)
		if before > 0 {
			_ = unix.MunmapPtr(base, before)
		}
		base = unsafe.Add(base, before)
		_ = unix.MunmapPtr(unsafe.Add(base, chunkBytes), chunkBytes-before)
	}
	b := unsafe.Slice((*byte)(base), chunkBytes)
	if huge {
		adviseHuge(b)
	}
	return b
}

func freeChunk(b []byte) { _ = unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))) }

// releasePages gives memory back; it reads as zeros then.
func releasePages(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }
