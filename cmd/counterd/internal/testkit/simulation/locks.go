//go:build hangs

package simulation

import _ "unsafe" // for go:linkname

// A goroutine that waits for a sync.Mutex does not count as idle in a bubble of testing/synctest, so the virtual clock stands while
// its holder sleeps. It is well to wait for it there: all locks of a run belong to goroutines of its bubble. The runtime has a
// table of reasons to wait that count as idle. This file changes it. The linker refuses that without -checklinkname=0.

//go:linkname idleInSynctest runtime.isIdleInSynctest
var idleInSynctest [waitReasons]bool

//go:linkname waitReasonNames runtime.waitReasonStrings
var waitReasonNames [waitReasons]string

// waitReasons is how many entries of the runtime's tables are looked at: those of locks are among them.
const waitReasons = 40

// lockWaitsAreIdle tells that disks may hang.
var lockWaitsAreIdle = func() bool {
	found := 0
	for i, name := range waitReasonNames {
		switch name {
		case "sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock":
			idleInSynctest[i] = true
			found++
		}
	}
	return found == 3
}()
