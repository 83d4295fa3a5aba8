package logfile

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ReadLineage reads the lineage of a data directory, of the file HISTORY or of its copy; none gives one without terms.
func ReadLineage(fsys vfs.FS, dir string) (format.Lineage, error) {
	name := format.LineagePath(dir)
	l, err := readLineageFile(fsys, dir, name)
	if !lostLineage(err) {
		return l, err
	}
	second, cerr := readLineageFile(fsys, dir, name+vfs.CopySuffix)
	switch {
	case cerr == nil:
		return second, nil
	case !vfs.IsNotExist(err):
		return l, err
	case !vfs.IsNotExist(cerr):
		return second, cerr
	}
	return format.Lineage{}, nil
}

// LineageFault tells why HISTORY or its copy does not count, where the other one does: damage. A missing copy is none, as older
// programs write no copy.
func LineageFault(fsys vfs.FS, dir string) error {
	name := format.LineagePath(dir)
	_, err := readLineageFile(fsys, dir, name)
	_, cerr := readLineageFile(fsys, dir, name+vfs.CopySuffix)
	switch {
	case err == nil && lostLineage(cerr) && !vfs.IsNotExist(cerr):
		return cerr
	case cerr == nil && lostLineage(err):
		return err
	}
	return nil
}

// lostLineage tells whether an error means that a file is damaged, gone, or cannot be had from the disk.
func lostLineage(err error) bool {
	return err != nil && !errors.Is(err, format.ErrUnsupportedFormat) && (vfs.IsNotExist(err) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, syscall.EIO))
}

func readLineageFile(fsys vfs.FS, dir, name string) (format.Lineage, error) {
	text, err := vfs.ReadFile(fsys, name, format.MaxLineageText)
	if errors.Is(err, vfs.ErrTooLarge) {
		return format.Lineage{}, &format.CorruptError{Dir: dir, File: name, Want: fmt.Sprintf("at most %d bytes", format.MaxLineageText), Got: "more", Err: err}
	}
	if err != nil {
		return format.Lineage{}, err
	}
	l, err := format.DecodeLineage(name, text)
	return l, format.WithDir(err, dir)
}

// WriteLineage makes l the lineage of a data directory, durably.
func WriteLineage(fsys vfs.FS, dir string, l *format.Lineage) error {
	return vfs.WriteTwice(fsys, format.LineagePath(dir), l.AppendText(nil))
}
