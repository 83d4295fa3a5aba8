package arena

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel without them says no, and everything works with small ones.
func adviseHuge(mem []byte) {
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
}

// release gives whole pages back; the next touch sees zeros.
func release(mem []byte) {
	if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
		clear(mem) // a locked mapping cannot be released, but free memory must be zero
	}
}
