package coldstore

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// adviseWillNeed starts reading b, whole pages of a mapping, and does not wait.
func adviseWillNeed(b []byte) { _ = unix.Madvise(b, unix.MADV_WILLNEED) }

// advisePopulate brings b, whole pages of a mapping, into memory and waits for them, on Linux 5.14 and newer.
func advisePopulate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_READ) }

// adviseRandom makes a fault on b read one page, not the 32 around it.
func adviseRandom(b []byte) { _ = unix.Madvise(b, unix.MADV_RANDOM) }

// mappedBytes is this process's memory of files' pages: RssFile of proc(5).
func mappedBytes() (n int64, known bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 3 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[2]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// adviseHuge has huge pages serve b.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// adviseSmall takes that back.
func adviseSmall(b []byte) { _ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) }
