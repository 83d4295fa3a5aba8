package past

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A directory that damage made useless, while another node has the data, is emptied and filled again (format.Healing):
//
//  1. GiveUp notes in HEALING, durably, that the files are being set aside
//  2. it renames all that is data: <name>.damaged-<n>. A log, images and cold files are renamed with their folder
//  3. it writes a HISTORY of a replica that has no log yet
//  4. it notes that another node's data is awaited
//  5. an Install brings the data
//     or the data of a backup, which stand beside it already, get their names (place)
//  6. Healed removes HEALING, when the node has all that the other one had; then it removes sets of earlier healings, and
//     sets between the first one and the newest
//
// A crash at any point leaves HEALING: a start goes on with step 2, which may be done again. The files that are set aside
// are never removed before the node is whole, and the first and the newest set not even then: they may hold the last copy of
// a change. Where damage comes again before the node is whole, the sets behind the first one are parts of a copy.

// GiveUp sets the files of a data directory aside, as damage made it useless. Of h, Since, Reason and the source of the data are used.
// Without a source, that of an earlier healing counts that has not ended. Nobody may have the directory
// open (vfs.ErrLocked).
func GiveUp(fsys vfs.FS, dir string, h format.Healing) (err error) {
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return giveUp(fsys, dir, h)
}

// giveUp begins another set.
func giveUp(fsys vfs.FS, dir string, h format.Healing) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	h.Aside, h.Set = true, newestSet(names)+1
	switch was, err := ReadHealing(fsys, dir); {
	case errors.Is(err, format.ErrCorrupt):
		h.First = 0
	case err != nil:
		return err
	case was != nil:
		h.First = was.First
		if h.Host == "" && !restores(&h) {
			h.Host, h.Port, h.Lead = was.Host, was.Port, was.Lead
		}
	default:
		h.First = h.Set
	}
	if err := writeHealing(fsys, dir, &h); err != nil {
		return err
	}
	if err := finishGiveUp(fsys, dir, h); err != nil {
		return err
	}
	return dropParts(fsys, dir, h)
}

// dropParts removes the sets between the first one of a healing and the newest: they are parts of a copy. So a node that meets
// damage at each start, and has nobody to copy, does not fill its disk.
func dropParts(fsys vfs.FS, dir string, h format.Healing) error {
	names, err := fsys.List(dir)
	if err != nil || h.First == 0 {
		return err
	}
	for _, name := range names {
		if _, n, ok := format.ParseDamaged(name); ok && n > h.First && n < h.Set {
			_ = removeAll(fsys, filepath.Join(dir, name)) // the disk may be damaged there: Healed tries again
		}
	}
	return nil
}

// finishGiveUp does steps 2 to 4. It may be done again after a crash at any point.
func finishGiveUp(fsys vfs.FS, dir string, h format.Healing) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		aside := format.DamagedName(name, h.Set)
		if !isData(name) || slices.Contains(names, aside) { // HISTORY that step 3 wrote before a crash
			continue
		}
		if err := fsys.Rename(filepath.Join(dir, name), filepath.Join(dir, aside)); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if err := logfile.WriteLineage(fsys, dir, &format.Lineage{Replica: true}); err != nil {
		return err
	}
	h.Aside = false
	if err := writeHealing(fsys, dir, &h); err != nil || !restores(&h) {
		return err
	}
	return place(fsys, dir)
}

// isData tells whether a name in a data directory is of something that recovery reads, or of what is known of it.
func isData(name string) bool {
	if _, ok := format.ParseManifestName(name); ok || format.IsStaged(name) {
		return true
	}
	return slices.Contains([]string{format.HistoryName, format.HistoryName + vfs.CopySuffix, format.ClaimName, ConfirmedName, format.LogDirName, format.ImageDirName, format.ColdDirName, LongerName, LongerName + vfs.CopySuffix}, name)
}

// ConfirmedName is the file of package repl that says how far the log was confirmed. It goes with the log.
const ConfirmedName = "CONFIRMED"

func writeHealing(fsys vfs.FS, dir string, h *format.Healing) error {
	return vfs.WriteFileAtomic(fsys, format.HealingPath(dir), h.Text())
}

// ReadHealing returns what HEALING says; nil: there is no such file. One that cannot be read is a *CorruptError.
func ReadHealing(fsys vfs.FS, dir string) (*format.Healing, error) {
	name := format.HealingPath(dir)
	text, err := vfs.ReadFile(fsys, name, format.MaxHealing)
	if vfs.IsNotExist(err) {
		return nil, nil
	}
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, &format.CorruptError{File: name, Want: fmt.Sprintf("at most %d bytes", format.MaxHealing), Got: "more", Err: err}
	}
	if err != nil {
		return nil, err
	}
	h, err := format.DecodeHealing(name, text)
	if err != nil {
		return nil, err
	}
	return &h, nil
}

// resumeGiveUp goes on with what a crash broke off.
func resumeGiveUp(fsys vfs.FS, dir string) (err error) {
	if h, err := ReadHealing(fsys, dir); err == nil && (h == nil || !h.Aside) {
		names, err := listRestored(fsys, dir)
		if vfs.IsNotExist(err) { // a new store
			return nil
		}
		if err != nil || len(names) == 0 {
			return err
		}
	}
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	h, err := ReadHealing(fsys, dir) // again: whoever had the lock may have finished it
	switch {
	case errors.Is(err, format.ErrCorrupt): // nobody knows what of the directory is data
		return giveUp(fsys, dir, format.Healing{Reason: err.Error()})
	case err != nil:
		return err
	case h == nil:
		return RemoveRestored(fsys, dir)
	case !h.Aside && restores(h):
		return place(fsys, dir)
	case !h.Aside:
		return nil
	}
	return finishGiveUp(fsys, dir, *h)
}

func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := persist.LockDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return lock, nil
}

// Healed notes, durably, that the directory has all data again, and removes the sets of files that were set aside, but for
// the first of this healing and the newest; keep: none, as the other node lacked something. kept is how many files and
// folders stay, among them those that cannot be removed. After an error the directory may still be healing.
func Healed(fsys vfs.FS, dir string, keep bool) (kept int, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	h, err := ReadHealing(fsys, dir)
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return 0, err
	}
	keep = keep || h == nil || h.First == 0
	if err := vfs.RemoveIfThere(fsys, format.HealingPath(dir)); err != nil {
		return 0, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return 0, err
	}
	newest := newestSet(names)
	for _, name := range names {
		if _, n, ok := format.ParseDamaged(name); ok && (keep || n == newest || n == h.First || removeAll(fsys, filepath.Join(dir, name)) != nil) {
			kept++ // the disk may be damaged where an old set is, which does no harm: the next healing tries again
		}
	}
	return kept, nil
}

// newestSet is the number of the newest set of files that were set aside, among the names in a data directory; 0: there is none.
func newestSet(names []string) (newest uint64) {
	for _, name := range names {
		if _, n, ok := format.ParseDamaged(name); ok {
			newest = max(newest, n)
		}
	}
	return newest
}

// removeAll removes a file, or a folder of files.
func removeAll(fsys vfs.FS, path string) error {
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := fsys.List(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := vfs.RemoveIfThere(fsys, filepath.Join(path, name)); err != nil {
				return err
			}
		}
	}
	return vfs.RemoveIfThere(fsys, path)
}
