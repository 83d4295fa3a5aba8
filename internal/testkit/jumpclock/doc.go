// Package jumpclock sets the wall clock of one running process, and leaves that of the machine and of all other processes alone. Only
// tests import it.
//
// A Go program asks for the time by clock_gettime of the vDSO, a small library that the kernel maps into each process. Each process has a
// private copy of its code as soon as somebody writes there, as a debugger does for a breakpoint. Attach writes a jump over the beginning of clock_gettime,
// to code in the unused end of the library that asks the kernel by the system call and adds an offset to the seconds of CLOCK_REALTIME. The monotonic clock goes on as
// ever, as it does when a real clock is set.
//
// It needs Linux on amd64, and the right to write the memory of the process (/proc/PID/mem), which a parent has.
//
// # Concurrency
//
// Attach stops the process for some milliseconds, and goes on only where no thread is within the bytes that it overwrites. Clock.Set may be called at any
// time.
package jumpclock

import "errors"

// ErrNotHere says that clocks of processes cannot be set here: another system, another architecture, or no right to it.
var ErrNotHere = errors.New("the clock of a process cannot be set here")
