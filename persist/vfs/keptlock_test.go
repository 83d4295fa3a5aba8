package vfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKeepLock: while a lock is kept, closing it gives it to the next Lock of this process and to nobody else, and the last
// release gives it up.
func TestKeepLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	lock := func(name string) *osLock {
		t.Helper()
		l, err := OS().Lock(name)
		must(t, err)
		return l.(*osLock)
	}
	free := func(want bool) { // as another process sees it: by an open file of its own
		t.Helper()
		other := name + "-other"
		must(t, os.Link(name, other)) // the same file under a name that is not kept
		l, err := OS().Lock(other)
		if want {
			must(t, err)
			must(t, l.Close())
		} else {
			wantErr(t, err, ErrLocked)
		}
		must(t, os.Remove(other))
	}
	l := lock(name)
	outer, inner := KeepLock(name), KeepLock(name)
	must(t, l.Close())
	wantErr(t, l.Close(), os.ErrClosed)
	free(false)
	for range 2 {
		l = lock(name)
		_, err := OS().Lock(name)
		wantErr(t, err, ErrLocked)
		must(t, l.Close())
		free(false)
	}
	inner()
	inner()
	free(false)
	l = lock(name)
	outer()
	free(false)
	must(t, l.Close())
	free(true)

	release := KeepLock(name) // nobody has it
	free(true)
	must(t, lock(name).Close())
	free(false)
	must(t, os.Remove(name)) // the lock that was put by is of a file without a name
	l = lock(name)
	free(false)
	must(t, l.Close())
	free(false)
	release()
	free(true)
}
