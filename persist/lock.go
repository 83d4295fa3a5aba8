package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

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

// GoneError says that a file that is in use has lost its name. It matches ErrNotReady.
type GoneError struct {
	Path string
	Why  string
}

func (e *GoneError) Error() string { return fmt.Sprintf("%s %s while in use", e.Path, e.Why) }

// Is makes errors.Is(err, ErrNotReady) true.
func (e *GoneError) Is(target error) bool { return target == ErrNotReady }

// named is a file that should keep its name. The zero value stands for one that is not known, and is always there.
type named struct {
	path string
	info fs.FileInfo
}

// nameOf notes the file that has a name now.
func nameOf(fsys vfs.FS, path string) named {
	info, err := fsys.Stat(path)
	if err != nil || !vfs.SameFile(info, info) { // an archive, whose files have no identity
		return named{}
	}
	return named{path, info}
}

// check returns a *GoneError if the name leads elsewhere. What cannot be told counts as there.
func (n *named) check(fsys vfs.FS) error {
	if n.info == nil {
		return nil
	}
	info, err := fsys.Stat(n.path)
	switch {
	case isNotExist(err):
		return &GoneError{n.path, "was removed or moved away"}
	case err == nil && !vfs.SameFile(info, n.info):
		return &GoneError{n.path, "was replaced"}
	}
	return nil
}

// dirLock is the lock of a data directory, with the names that say that it is still the one.
type dirLock struct {
	fsys vfs.FS
	path string // of the directory

	mu     sync.Mutex // guards the rest
	closed bool
	locks  []io.Closer // one, or more after it was taken again
	dir    named
	file   named
}

// LockDir takes the lock of a data directory that is not open, until it is closed. vfs.ErrLocked: another process has
// it, or an open Dir.
func LockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	return fsys.Lock(filepath.Join(dir, lockName))
}

func takeLock(fsys vfs.FS, path string) (*dirLock, error) {
	l := &dirLock{fsys: fsys, path: path}
	if err := l.take(); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	l.dir = nameOf(fsys, path)
	return l, nil
}

func (l *dirLock) take() error {
	name := filepath.Join(l.path, lockName)
	lock, err := l.fsys.Lock(name)
	if err != nil {
		return err
	}
	l.locks, l.file = append(l.locks, lock), nameOf(l.fsys, name)
	return nil
}

// check returns nil while the directory is this process's. When only LOCK is missing it is taken again, and there with
// the next check.
func (l *dirLock) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if err := l.dir.check(l.fsys); err != nil {
		return err
	}
	err := l.file.check(l.fsys)
	if err == nil {
		return nil
	}
	if _, serr := l.fsys.Stat(l.file.path); isNotExist(serr) {
		if terr := l.take(); terr != nil {
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

// watchNames refuses changes while the directory or the last segment is not what its name says: see above.
func (l *Log) watchNames() {
	err := l.files.maker.guarded()
	l.mu.Lock()
	active, was := l.files.active, l.refusals[reasonGone]
	l.mu.Unlock()
	if err == nil && active != nil {
		err = active.name.check(l.opts.FS)
	}
	if err == nil && was != nil {
		err = l.files.unchanged()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || l.files.active != active || l.healing || l.files.rotate && l.writing { // it was being replaced by us
		return
	}
	l.refuse(reasonGone, err)
}
