package past

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Damaged files and the copy that replaces them may not both fit the disk. Images and cold files take most of the room. They may go
// before the copy is there if all that they held is on the node that is copied: if the log that was set aside with them is the beginning of
// that node's log. The log, HISTORY and the manifests stay, as always.

// errMayBeLast: the files of a set may hold the last copy of a change.
var errMayBeLast = errors.New("it is not known that the other node has all that is in them")

// DropCopied removes images and cold files that a healing has set aside, and returns how many sets it took. other is the past of the log
// of the node that is copied, whose posts can all be read. Of a node that is to lead again nothing is removed. The error says why a
// set stays.
func DropCopied(fsys vfs.FS, dir string, other *format.Lineage) (sets int, err error) {
	h, err := ReadHealing(fsys, dir)
	if err != nil || h == nil || h.Aside {
		return 0, err
	}
	if h.Lead != (format.ReplID{}) {
		return 0, errMayBeLast
	}
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	freed := map[uint64]bool{}
	var kept []error
	for _, name := range names {
		was, n, ok := format.ParseDamaged(name)
		if !ok || was != format.ImageDirName && was != format.ColdDirName {
			continue
		}
		if err := hasAll(fsys, dir, n, other); err != nil {
			kept = append(kept, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := removeAll(fsys, filepath.Join(dir, name)); err != nil {
			kept = append(kept, err)
			continue
		}
		freed[n] = true
	}
	return len(freed), errors.Join(append(kept, fsys.SyncDir(dir))...)
}

// hasAll returns nil if the log of a set is the beginning of another log.
func hasAll(fsys vfs.FS, dir string, set uint64, other *format.Lineage) error {
	l, err := damagedLineage(fsys, dir, set)
	if err != nil {
		return err
	}
	end, err := DamagedLog(fsys, dir, set, 0, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	if segs, err := logfile.SegmentsIn(fsys, DamagedPath(dir, format.LogDirName, set)); err != nil || len(segs) == 0 {
		return errors.Join(errMayBeLast, err) // nobody knows how far it had come
	}
	if at, known := other.Common(math.MaxUint64, &l, end); !known || at < end {
		return fmt.Errorf("%w: the logs agree up to %d of %d", errMayBeLast, at, end)
	}
	return nil
}

// damagedLineage reads HISTORY of a set, or its copy.
func damagedLineage(fsys vfs.FS, dir string, set uint64) (l format.Lineage, err error) {
	for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
		path := DamagedPath(dir, name, set)
		text, rerr := vfs.ReadFile(fsys, path, format.MaxLineageText)
		if rerr == nil {
			if l, rerr = format.DecodeLineage(path, text); rerr == nil && name != format.HistoryName {
				var segs []logfile.Segment
				if segs, rerr = logfile.SegmentsIn(fsys, DamagedPath(dir, format.LogDirName, set)); rerr == nil {
					rerr = logfile.OutdatedLineage(fsys, segs, &l)
				}
			}
			if rerr == nil && len(l.Terms) > 0 {
				return l, nil
			}
		}
		err = errors.Join(err, rerr)
	}
	return l, errors.Join(errMayBeLast, err)
}
