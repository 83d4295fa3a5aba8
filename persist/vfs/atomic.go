package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// TempSuffix ends the name of a file that is being written by WriteFileAtomic. After a crash such a file is rubbish.
const TempSuffix = ".tmp"

// WriteFileAtomic writes data to the file name, replacing it if it exists: temporary file, sync, rename, sync of the
// directory. When it returns nil the new content is durable. After a crash the file has the old content or the
// new, never a part; a temporary file may be left.
//
// On an error before the rename the file is untouched and the temporary file is removed if that is possible. An
// error of the last step, the sync of the directory, leaves the new content visible but not durable.
//
// Only one call at a time for one name: the temporary file of another would be taken for a leftover.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	temp := name + TempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(fsys, temp, data); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp) // the rename's error is the one to tell
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// writeNew makes a file with durable content. On an error it removes the file again.
func writeNew(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(name)
	}
	return err
}

// CopyContent copies a file's bytes to one that is new, and syncs it.
func CopyContent(to, from File) error {
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := from.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		if n == 0 {
			return to.Sync()
		}
		if _, err := to.WriteAt(buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
}

// RemoveTemps removes the files in dir that end in TempSuffix and returns how many there were. It does not
// sync dir: what comes back after a crash is removed the next time.
func RemoveTemps(fsys FS, dir string) (int, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if !strings.HasSuffix(name, TempSuffix) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// ReadFile returns the content of a small file. One of more than limit bytes gives ErrTooLarge before memory
// is taken for it.
func ReadFile(fsys FS, name string, limit int64) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			data, err = nil, cerr
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, pathError("read", name, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, limit))
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return data[:n], nil
}
