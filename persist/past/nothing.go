package past

import (
	"errors"
	"math"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// emptyNames are the names of data that a directory has from its first start on.
var emptyNames = []string{format.HistoryName, format.HistoryName + vfs.CopySuffix, format.LogDirName, format.ImageDirName, format.ColdDirName}

// HoldsNothing tells whether a directory that is not open, and may be damaged, has nothing that can be read as data, and nothing that says
// that there was any: no snapshot, no image, no cold file, no whole frame of a log at any place, no term in HISTORY, and none of the
// files that are written once there is a log. An error says that this could not be read. It changes nothing.
func HoldsNothing(fsys vfs.FS, dir string) (bool, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name == format.HealingName || isData(name) && !slices.Contains(emptyNames, name) {
			return false, nil
		}
	}
	for _, folder := range []string{format.ImageDirName, format.ColdDirName} {
		files, err := vfs.ListDir(fsys, filepath.Join(dir, folder))
		if err != nil || len(files) > 0 {
			return false, err
		}
	}
	switch past, err := logfile.ReadLineage(fsys, dir); {
	case err != nil && (!errors.Is(err, format.ErrCorrupt) || vfs.IsTrouble(err)):
		return false, err
	case err == nil && (len(past.Terms) > 0 || past.Begun() != ""):
		return false, nil
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil {
		return false, err
	}
	for _, seg := range segs {
		_, _, found, err := logfile.FramesBehind(fsys, logfile.SegmentInfo{Start: seg.Start, Path: seg.Path}, seg.Start, math.MaxUint64)
		if err != nil || found || seg.Start > 0 {
			return false, err
		}
	}
	return true, nil
}

// RenewEmpty sets the files of a directory that holds nothing aside, so that a start finds the directory of a new store. It may be done
// again after a crash at any point. Nobody may have the directory open (vfs.ErrLocked).
func RenewEmpty(fsys vfs.FS, dir string) (err error) {
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	set := newestSet(names) + 1
	for _, name := range names {
		if !slices.Contains(emptyNames, name) {
			continue
		}
		if err := fsys.Rename(filepath.Join(dir, name), DamagedPath(dir, name, set)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}
