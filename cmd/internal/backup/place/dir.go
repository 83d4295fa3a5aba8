package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/persist/vfs"
)

// dirStore is a directory: an object is a file. One under way has a name of its own until it is whole and on the disk.
type dirStore struct{ path string }

// OpenDir opens a directory, which the first object that is put makes.
func OpenDir(path string) (Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return dirStore{abs}, nil
}

// HasBackups tells whether a path is a directory with backups.
func HasBackups(path string) bool {
	info, err := os.Stat(filepath.Join(path, "backups"))
	return err == nil && info.IsDir()
}

func (d dirStore) String() string { return d.path }

func (d dirStore) file(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

func (d dirStore) Put(_ context.Context, name string, r io.Reader) error {
	path := d.file(name)
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	err := atomicfile.Replace(path, 0o640, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	if err != nil {
		return err
	}
	// The directories too, which another Put may have made: an object whose name a power failure takes back was not put.
	for dir := filepath.Dir(filepath.Dir(path)); len(dir) >= len(d.path); dir = filepath.Dir(dir) {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (d dirStore) Get(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := os.Open(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d.file(name), ErrNone)
	}
	return f, err
}

func (d dirStore) List(ctx context.Context, prefix string, f func(name string, bytes int64) error) error {
	return filepath.WalkDir(d.file(prefix), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir(), strings.HasSuffix(path, atomicfile.TempSuffix):
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(d.path, path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(name), info.Size())
	})
}

func (d dirStore) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock: the lock ends with the process, so a killed one leaves none behind.
func (d dirStore) Lock(context.Context) (unlock func() error, lost <-chan struct{}, err error) {
	if err := os.MkdirAll(d.path, 0o750); err != nil {
		return nil, nil, err
	}
	held, err := vfs.OS().Lock(d.file("lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, fmt.Errorf("%s: %w", d.path, ErrLocked)
	}
	if err != nil {
		return nil, nil, err
	}
	// A half-written file of a killed process belongs to no one.
	err = filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, atomicfile.TempSuffix) {
			return os.Remove(path)
		}
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, held.Close())
	}
	return held.Close, nil, nil
}
