package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes of what we create, before the umask: the group may read (backup, monitoring), others nothing.
const (
	fileMode fs.FileMode = 0o640
	dirMode  fs.FileMode = 0o750
)

// osFS is the file system of the operating system. It has no state but the locks that are kept (KeepLock).
type osFS struct{}

var _ FS = osFS{}

// OS returns the file system of the operating system (Linux; macOS for development).
func OS() FS { return osFS{} }

func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

func (osFS) OpenRW(name string) (File, error) { return openOS(name, os.O_RDWR) }

// openOS opens a file and refuses a directory, which the kernel would open for reading.
func openOS(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags, fileMode) // adds O_CLOEXEC, retries EINTR
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = pathError("open", name, syscall.EISDIR)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{f: f}, nil
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldname, newname string) error {
	if filepath.Dir(oldname) != filepath.Dir(newname) {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: syscall.EXDEV}
	}
	return os.Rename(oldname, newname)
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirMode) }

// SyncDir is fsync of the directory. A file system that refuses it (EINVAL on some network file systems) cannot
// keep the durability contract, so the error is not hidden.
func (osFS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.IsDir():
		err = pathError("syncdir", dir, syscall.ENOTDIR)
	default:
		err = fsync(f)
	}
	return errors.Join(err, f.Close())
}

func (osFS) Space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return Space{Free: MaxSpace}, pathError("statfs", dir, err)
	}
	unit := blockUnit(&st)
	if st.Blocks == 0 || unit <= 0 { // some network and virtual file systems do not say
		return Space{Free: MaxSpace}, nil
	}
	return Space{Free: int64(st.Bavail) * unit, Total: int64(st.Blocks) * unit}, nil
}

// Lock uses flock: unlike fcntl locks it is bound to the open file, so a second Lock in this process fails too and
// closing an unrelated descriptor of the file does not drop it. Only another file system client (NFS before
// Linux 2.6.12) does not see it.
func (osFS) Lock(name string) (io.Closer, error) {
	if f := takeKept(name); f != nil {
		return &osLock{name: name, file: f}, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if errors.Is(err, syscall.EROFS) { // a lock needs no right to write
		f, err = os.Open(name)
	}
	if err != nil {
		return nil, err
	}
	err = retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, pathError("lock", name, err)
	}
	return &osLock{name: name, file: f}, nil // closing the only descriptor of the open file releases the lock
}

// retryEINTR calls f until it is not interrupted by a signal. Package os does so in its own calls.
func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
