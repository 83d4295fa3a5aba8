package persist

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A file that has lost its name is written to and synced without an error, and gone with the process. So a data
// directory that is deleted, moved away or put in another's place while it is open would go unnoticed, and everything
// acknowledged from then on would be lost. Each second the log asks whether the names of LOCK and of its last segment
// still lead to the files that are open, and refuses changes while they do not. Nor is anything made or removed in a
// directory whose LOCK is not ours: it may be another process's by now.
//
// Service resumes when the files are back under their names: the directory was moved back. A LOCK that was removed,
// alone, is made and taken again; service resumes if nobody has changed the log meanwhile.

// dirLock is the lock of a data directory, with the names that say that it is still the one.
type dirLock struct {
	fsys vfs.FS
	path string // of the directory

	mu     sync.Mutex // guards the rest
	closed bool
	locks  []io.Closer // one, or more after it was taken again
	dir    logfile.Named
	file   logfile.Named
}

// LockDir takes the lock of a data directory that is not open, until it is closed. vfs.ErrLocked: another process has
// it, or an open Dir.
func LockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	return fsys.Lock(filepath.Join(dir, format.LockName))
}

// KeepDirLock keeps the lock of a data directory in this process until release is called, also while the directory is not open:
// a process that opens a directory anew must find it as it left it, and a tool that took a free lock would keep it for as long as
// it reads. LockDir and OpenDir get the lock meanwhile. Other file systems than vfs.OS have no other processes.
func KeepDirLock(dir string) (release func()) {
	return vfs.KeepLock(filepath.Join(dir, format.LockName))
}

func newDirLock(fsys vfs.FS, path string) (*dirLock, error) {
	l := &dirLock{fsys: fsys, path: path}
	err := l.lockFile()
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%w: a counterd has the directory open, or a counterctl reads it; start again when that has ended", err)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	l.dir = logfile.NameOf(fsys, path)
	return l, nil
}

func (l *dirLock) lockFile() error {
	name := filepath.Join(l.path, format.LockName)
	lock, err := l.fsys.Lock(name)
	if err != nil {
		return err
	}
	l.locks, l.file = append(l.locks, lock), logfile.NameOf(l.fsys, name)
	return nil
}

// check returns nil while this process has the directory. If only LOCK is missing, check makes the file and locks it again;
// the next check then returns nil.
func (l *dirLock) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if err := l.dir.Check(l.fsys); err != nil {
		return err
	}
	err := l.file.Check(l.fsys)
	if err == nil {
		return nil
	}
	if _, serr := l.fsys.Stat(l.file.Path); vfs.IsNotExist(serr) {
		if terr := l.lockFile(); terr != nil {
			err = fmt.Errorf("%w (taking it again: %w)", err, terr)
		}
	}
	return err
}

// Close releases the lock.
func (l *dirLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, lock := range l.locks {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}
