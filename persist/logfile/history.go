package logfile

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ReadLineage reads the lineage of a data directory; none gives one without terms.
func ReadLineage(fsys vfs.FS, dir string) (format.Lineage, error) {
	name := format.LineagePath(dir)
	text, err := vfs.ReadFile(fsys, name, format.MaxLineageText)
	if vfs.IsNotExist(err) {
		return format.Lineage{}, nil
	}
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
	return vfs.WriteFileAtomic(fsys, format.LineagePath(dir), l.AppendText(nil))
}
