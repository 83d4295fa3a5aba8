package persist

import (
	"errors"
	"io"
	"io/fs"

	"github.com/counterd/counterd/persist/vfs"
)

// Steps on files that vfs does not have.

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// removeIfThere removes a file; that it is missing is no error.
func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}

// truncateTo cuts a file that is longer than size.
func truncateTo(fsys vfs.FS, path string, size int64) error {
	f, err := fsys.OpenRW(path)
	if err != nil {
		return err
	}
	have, err := f.Size()
	if err == nil && have > size {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

// cutSegment cuts what lies in a segment file behind a log offset. One that is packed has nothing there.
func cutSegment(fsys vfs.FS, seg *segment, at uint64) error {
	file, err := fsys.Open(seg.path)
	if err != nil {
		return err
	}
	head, err := readAtMost(file, make([]byte, segmentHeaderLen), 0)
	if err = errors.Join(err, file.Close()); err != nil || isPackedHeader(head) {
		return err
	}
	return truncateTo(fsys, seg.path, seg.offset(at))
}

// listDir lists a directory that may be missing.
func listDir(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if isNotExist(err) {
		return nil, nil
	}
	return names, err
}

// readAtMost fills b from off and returns what the file has of it.
func readAtMost(f vfs.File, b []byte, off int64) ([]byte, error) {
	n, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}
