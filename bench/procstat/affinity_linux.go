package procstat

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin makes all threads of a process run on the given processors only. Threads that the process starts later inherit
// that from the thread that starts them. The function returned undoes it; threads that ended meanwhile do not matter
// to it.
func Pin(pid int, cpus []int) (undo func() error, err error) {
	var want, had unix.CPUSet
	for _, cpu := range cpus {
		want.Set(cpu)
	}
	if err := unix.SchedGetaffinity(pid, &had); err != nil {
		return nil, fmt.Errorf("processors of process %d: %w", pid, err)
	}
	if err := pinThreads(pid, &want); err != nil {
		return nil, fmt.Errorf("pin process %d to processors %v: %w", pid, cpus, err)
	}
	return func() error { return pinThreads(pid, &had) }, nil
}

// pinThreads sets all threads of a process. It goes over them twice, as one may have started another before it was set
// itself.
func pinThreads(pid int, set *unix.CPUSet) error {
	for range 2 {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}
