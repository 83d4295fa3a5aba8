// Package atomicfile replaces files of programs' users, settings, users, objects of a backup, so that a reader finds
// the old or the new file, complete, also after a power failure. Files of the data directory go through persist/vfs.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// TempSuffix is that of files under way. A process that is killed leaves them behind.
const TempSuffix = ".tmp"

// Replace creates or replaces a file. write writes its content. On an error the old file stays.
func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+TempSuffix)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MkdirAll makes a directory and its missing parents, durably: the names of new directories outlast a power failure.
func MkdirAll(path string, mode os.FileMode) error { return mkdirAll(path, mode, SyncDir) }

func mkdirAll(path string, mode os.FileMode, sync func(dir string) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := mkdirAll(parent, mode, sync); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(path, mode); err != nil { // another process may have made it meanwhile
		return err
	}
	return sync(parent)
}

// SyncDir makes the entries of a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
