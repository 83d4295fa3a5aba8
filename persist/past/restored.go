package past

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// A directory without help from another node is filled from a backup. The data stand beside the damaged files as
// <name>.restored, whole and durable, before GiveUp begins, and get their names in its last step (place). A crash before
// HEALING is written leaves the damaged directory as it was; the next start removes the restored data, and begins again.

const restoredSuffix = ".restored"

// RestoredName is the name of a file or folder of data that a backup gave, until it is in its place. ok is false for a
// name that is none of data.
func RestoredName(name string) (restored string, ok bool) {
	return name + restoredSuffix, isData(name)
}

// restores tells whether a healing takes data that a backup gave.
func restores(h *format.Healing) bool { return h.Lead != (format.ReplID{}) && h.Host == "" }

// listRestored returns the names of restored data without their own names.
func listRestored(fsys vfs.FS, dir string) (names []string, err error) {
	names, err = fsys.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, restoredSuffix) }), err
}

// place gives the restored data their names, HISTORY last: until then it says that this is a replica without data. It
// may be done again after a crash at any point.
func place(fsys vfs.FS, dir string) error {
	names, err := listRestored(fsys, dir)
	if err != nil || len(names) == 0 {
		return err
	}
	history, _ := RestoredName(format.HistoryName)
	rename := func(name string) error {
		path := filepath.Join(dir, name)
		return fsys.Rename(path, strings.TrimSuffix(path, restoredSuffix))
	}
	for _, name := range names {
		if name == history {
			continue
		}
		if err := rename(name); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if slices.Contains(names, history) {
		if err := rename(history); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// RemoveRestored removes restored data that have no healing. A power failure may bring them back: the next start removes them again.
func RemoveRestored(fsys vfs.FS, dir string) error {
	names, err := listRestored(fsys, dir)
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if err := removeAll(fsys, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
