package past

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Files that a tool takes out of use stay in the data directory as <name>.broken-<n>. The program never reads them again.

// SetAside renames a file of a data directory, durably, and calls say with one line about it. say may be nil.
func SetAside(fsys vfs.FS, path string, say func(string)) error {
	name, err := asideName(fsys, path)
	if err != nil {
		return err
	}
	if err := fsys.Rename(path, name); err != nil {
		return err
	}
	if say != nil {
		say(fmt.Sprintf("set %s aside as %s", path, filepath.Base(name)))
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// CopyAside copies a file of a data directory that is about to be changed, durably, and calls say with one line about it. say may
// be nil.
func CopyAside(fsys vfs.FS, path string, say func(string)) (err error) {
	name, err := asideName(fsys, path)
	if err != nil {
		return err
	}
	from, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := fsys.Create(name)
	if err != nil {
		return err
	}
	err = vfs.CopyContent(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if say != nil {
		say(fmt.Sprintf("copied %s to %s before changing it", path, filepath.Base(name)))
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// asideName returns a free name for a file that is set aside.
func asideName(fsys vfs.FS, path string) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s%s%d", path, format.AsideInfix, n)
		if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// IsAside reports whether a file was set aside.
func IsAside(name string) bool { return strings.Contains(name, format.AsideInfix) }
