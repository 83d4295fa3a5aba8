// Package vfs is the one seam between counterd's storage code and the file system.
//
// Three implementations stand behind it: OS (the real one), Sim (in memory, knows exactly which bytes and which
// directory entries a power failure may take back, and can crash at any operation) and Faulty (wraps another FS and
// makes chosen operations fail). For tools, View shows another FS and keeps changes in memory, and Interruptible ends
// reading with a context. Storage code takes an FS and never calls package os for files of the data directory, so that
// every crash and every error can be rehearsed.
//
// The interface is kept small: what it lacks, storage code must not need. WriteFileAtomic, ReadFile and
// RemoveTemps are the only compound operations; they are written on top of FS, so they crash and fail with it.
//
// Names are slash-separated paths as given to the operating system. Sim reads a relative name from its root, so
// "d/f" and "/d/f" are one file there.
//
// # Durability contract
//
// Bytes written to a File are durable once its Sync returned nil. The existence, name and absence of a file
// (Create, Rename, Remove, Mkdir) are durable once SyncDir of the parent directory returned nil. Nothing else
// is promised: unsynced bytes may survive in part, in any order, in units of 512 bytes; unsynced directory
// changes may survive one by one, in any order. After a failed Sync the state of all bytes not synced before is
// unknown and stays so: a later Sync on the same File that returns nil proves nothing (fsync on Linux marks
// the pages clean: Rebello et al., "Can Applications Recover from fsync Failures?", ATC '20).
//
// # Rehearsing a crash
//
//	for n := 0; ; n++ {
//		s := base.Kill()        // a cheap fork of a prepared file system
//		s.CrashAt(n)
//		run(s)                  // everything from operation n on fails with ErrCrashed
//		if !s.Crashed() {
//			break           // the run has only n operations: all crash points are done
//		}
//		for _, keep := range []int{0, 30, 70, 100} {
//			verify(s.Crash(seed, keep)) // the disk after power loss
//		}
//		verify(s.Kill())        // the disk after kill -9
//	}
//
// To understand a failing point print s.WriteTrace(w), the operations before it, and s.ExplainCrash(w, seed, keep),
// what the power loss took.
//
// # Files
//
//	vfs.go           FS and File
//	op.go            kinds of operations
//	errors.go        errors of files
//	space.go         free space of a file system
//	stream.go        reads a file from its beginning
//	steps.go         small steps that storage code repeats
//	atomic.go        replaces a file whole or not at all
//	twice.go         keeps a small file and its copy
//	interrupt.go     ends reading with a context
//	view.go          View: shows another FS and keeps changes in memory
//	os.go            OS, the file system of the operating system
//	os_file.go       its files
//	keptlock.go      locks that a process keeps while it opens a directory anew
//	os_linux.go      system calls of Linux
//	os_other.go      the same on other systems
//	aio_linux.go     syncs that leave the processor free
//	sim.go           Sim, a file system in memory that can crash
//	sim_node.go      its files and directories
//	sim_content.go   the content of its files
//	sim_handle.go    its open files, maps and locks
//	sim_crash.go     what a power failure leaves
//	sim_damage.go    files that decay
//	sim_trace.go     the operations before a crash
//	faulty.go        Faulty: makes chosen calls fail
//	faulty_file.go   its files
//	rule.go          which calls fail, and how
package vfs
