package vfs

import (
	"os"
	"sync"
)

// A process that closes a data directory, to open it again at once, must not lose its lock in between. A tool that reads the
// directory at that moment takes a free lock, and keeps it for as long as it reads: the process could not come back.
//
// KeepLock keeps a lock over such a time. A lock of that name that is closed meanwhile is not released. It is put by, and the
// next Lock of that name in this process gets it. Other processes find the file locked all the time.
//
// Only the file system of the operating system has other processes, so only OS does this.

// keptLocks are the names whose locks are kept.
var keptLocks = struct {
	mu    sync.Mutex // guards the rest
	names map[string]*keptLock
}{names: map[string]*keptLock{}}

// keptLock is one name.
type keptLock struct {
	users int      // calls of KeepLock that have not ended
	file  *os.File // the lock, while nobody in this process has it; nil: somebody has, or nobody ever had
}

// KeepLock keeps the lock of a file in this process until release is called, also while nobody here has it. name must be the
// name that Lock is given. release releases a lock that nobody has then.
func KeepLock(name string) (release func()) {
	keptLocks.mu.Lock()
	defer keptLocks.mu.Unlock()
	k := keptLocks.names[name]
	if k == nil {
		k = &keptLock{}
		keptLocks.names[name] = k
	}
	k.users++
	return sync.OnceFunc(func() {
		keptLocks.mu.Lock()
		defer keptLocks.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(keptLocks.names, name)
			k.drop()
		}
	})
}

// drop releases a lock that was put by. REQUIRES: keptLocks.mu.
func (k *keptLock) drop() {
	if k.file != nil {
		_ = k.file.Close() // nothing was written
		k.file = nil
	}
}

// takeKept returns the lock of a name that was put by; nil: there is none. A lock of a file that has lost the name is of no use,
// and released.
func takeKept(name string) *os.File {
	keptLocks.mu.Lock()
	defer keptLocks.mu.Unlock()
	k := keptLocks.names[name]
	if k == nil || k.file == nil {
		return nil
	}
	have, err := k.file.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = os.Stat(name); err == nil && os.SameFile(have, named) {
			file := k.file
			k.file = nil
			return file
		}
	}
	k.drop()
	return nil
}

// osLock is a lock that this process has.
type osLock struct {
	name string
	file *os.File // nil: closed; guarded by keptLocks.mu
}

// Close releases the lock, or puts it by while its name is kept.
func (l *osLock) Close() error {
	keptLocks.mu.Lock()
	defer keptLocks.mu.Unlock()
	file := l.file
	if l.file = nil; file == nil {
		return os.ErrClosed
	}
	k := keptLocks.names[l.name]
	if k == nil {
		return file.Close()
	}
	k.drop() // the one closed last is of the file that has the name
	k.file = file
	return nil
}
