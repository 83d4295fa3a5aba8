package logfile

import (
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// GoneError says that a file that is in use has lost its name. It matches ErrNotReady.
type GoneError struct {
	Path string
	Why  string
}

func (e *GoneError) Error() string { return fmt.Sprintf("%s %s while in use", e.Path, e.Why) }

// Is makes errors.Is(err, ErrNotReady) true.
func (e *GoneError) Is(target error) bool { return target == format.ErrNotReady }

// Named is a file that should keep its name. The zero value stands for one that is not known, and is always there.
type Named struct {
	Path string
	info fs.FileInfo
}

// NameOf notes the file that has a name now.
func NameOf(fsys vfs.FS, path string) Named {
	info, err := fsys.Stat(path)
	if err != nil || !vfs.SameFile(info, info) { // an archive, whose files have no identity
		return Named{}
	}
	return Named{path, info}
}

// Check returns a *GoneError if the name leads elsewhere. What cannot be told counts as there.
func (n *Named) Check(fsys vfs.FS) error {
	if n.info == nil {
		return nil
	}
	info, err := fsys.Stat(n.Path)
	switch {
	case vfs.IsNotExist(err):
		return &GoneError{n.Path, "was removed or moved away"}
	case err == nil && !vfs.SameFile(info, n.info):
		return &GoneError{n.Path, "was replaced"}
	}
	return nil
}
