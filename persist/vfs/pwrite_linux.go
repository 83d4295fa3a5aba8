package vfs

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A short write goes to the page cache in 1 to 3 µs and hardly ever waits. What the runtime of Go does around a system
// call costs more: it wakes its monitor where all of its processors (P) were idle, as they are between the commands of
// a few clients, and the monitor then looks each 20 µs for a while. With INCRs one deep that was 14 % of the processor
// time in the monitor's thread, and as much in waking it: 1.1 to 1.2 times the time an INCR, of 1 to 64 clients. So
// short writes go past the runtime.
//
// A disk that is behind makes a write wait all the same, and its P with it: the monitor would take that away from a
// write that the runtime knows of, 10 to 20 ms later. So after a write that took as long, the runtime is told of all for
// a while: not each write that waits may hold a P, and stop whoever has to stop the world, but one a second.
const (
	shortWrite = 4 << 10
	slowWrite  = 10 * time.Millisecond
	slowRest   = time.Second
)

// pacer tells whether the disk takes writes at once. Times count from the start of the process.
type pacer struct {
	until atomic.Int64 // when it is trusted again
}

// writes is the pacer of all files: they lie on one disk, mostly. started is what its times count from.
var (
	writes  pacer
	started = time.Now()
)

// prompt tells whether a write at this time will hardly wait.
func (w *pacer) prompt(now time.Duration) bool { return now >= time.Duration(w.until.Load()) }

// took notes how long one took.
func (w *pacer) took(began, ended time.Duration) {
	if ended-began > slowWrite {
		w.until.Store(int64(ended + slowRest))
	}
}

// pwrite is pwrite(2), once.
func pwrite(fd int, p []byte, off int64) (int, error) {
	// With 32 bits the offset is two arguments, and none is no address.
	if len(p) > shortWrite || len(p) == 0 || bits.UintSize != 64 {
		return unix.Pwrite(fd, p, off)
	}
	began := time.Since(started)
	if !writes.prompt(began) {
		return unix.Pwrite(fd, p, off)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(off), 0, 0)
	writes.took(began, time.Since(started))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
