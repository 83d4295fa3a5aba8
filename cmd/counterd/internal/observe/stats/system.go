package stats

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// resident is the memory of the process that is in RAM, 0 if unknown. The second field of statm counts pages.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// SystemMemory is the machine's RAM in bytes, 0 if unknown. Its line is "MemTotal: 24683840 kB".
var SystemMemory = sync.OnceValue(func() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "MemTotal:" {
			kib, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
})

// CPU is the processor time that the process took in the kernel and outside of it.
type CPU struct{ System, User time.Duration }

// UsedCPU returns that of the process and of the children that it has waited for.
func UsedCPU() (self, children CPU) {
	of := func(who int) CPU {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u) // cannot fail with these arguments
		return CPU{time.Duration(u.Stime.Nano()), time.Duration(u.Utime.Nano())}
	}
	return of(syscall.RUSAGE_SELF), of(syscall.RUSAGE_CHILDREN)
}
