package datadir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// NewView returns a view of a data directory that may be in use: what reads it sees the log as it was when it was first
// listed, and may change and lock what it likes without touching the disk. dir must be written as it will be later.
// What the log claims to be durable is read now: a later claim may speak of what the view does not show.
//
// A server that goes on may remove files after they were listed: fs.ErrNotExist then means to begin again.
func NewView(fsys vfs.FS, dir string) *vfs.View {
	v := newView(fsys, dir)
	claim, err := v.OpenRW(format.ClaimPath(dir)) // which copies it
	if errors.Is(err, fs.ErrNotExist) {
		claim, err = v.Create(format.ClaimPath(dir)) // an empty file claims nothing
	}
	if err == nil {
		_ = claim.Close() // in memory
	}
	return v
}

func newView(fsys vfs.FS, dir string) *vfs.View {
	return vfs.NewView(fsys, func(listed string, names []string) []string {
		if listed != filepath.Clean(format.LogDir(dir)) {
			return nil
		}
		for i := len(names) - 1; i >= 0; i-- { // sorted by offset: the last one is written to
			if _, ok := format.ParseSegmentName(names[i]); ok {
				return names[i : i+1]
			}
		}
		return nil
	})
}

// finishedView returns a view of a directory as the next start will leave it, or the file system itself where nothing
// was begun.
func finishedView(fsys vfs.FS, dir string, l *format.Lineage) (vfs.FS, error) {
	if l.Begun() == "" {
		return fsys, nil
	}
	view := vfs.NewView(fsys, nil)
	finished := *l
	return view, past.FinishBegunLocked(view, dir, &finished)
}

// Settled returns a directory as the next start will leave it: what a crash broke off is finished in a view.
func Settled(fsys vfs.FS, dir string) (vfs.FS, error) {
	l, err := logfile.ReadLineage(fsys, dir)
	if err != nil {
		return nil, err
	}
	return finishedView(fsys, dir, &l)
}
