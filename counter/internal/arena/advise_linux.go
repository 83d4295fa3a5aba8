package arena

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages. A kernel without them says no, and everything works with small ones.
func adviseHuge(mem []byte) {
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
}

// collapseHuge makes mem, a huge page's worth, one.
func collapseHuge(mem []byte) error { return unix.Madvise(mem, unix.MADV_COLLAPSE) }

// wantsHuge tells whether the administrator lets the kernel use huge pages where it is asked to. MADV_COLLAPSE does not
// care.
func wantsHuge() bool {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !strings.Contains(string(text), "[never]")
}

// release gives whole pages back; the next touch sees zeros.
func release(mem []byte) {
	if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
		clear(mem) // a locked mapping cannot be released, but free memory must be zero
	}
}
