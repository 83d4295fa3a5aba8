package past

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Install puts a primary's snapshot and log in the place of what a data directory holds. A crash leaves the one or the
// other:
//
//  1. Beside what is there, which may be open and served meanwhile: the block files, before this; the log up to the
//     snapshot's offset as log/<start>.aof.new; the manifest as MANIFEST-<n>.new. Stage makes all of it durable.
//  2. Finish writes HISTORY with "install clear": from here on the new content counts.
//  3. Old manifests and segments are removed, durably.
//  4. HISTORY says "install name".
//  5. What is staged gets its names, durably.
//  6. HISTORY is the primary's, and nothing more is to be done.
//
// After a crash FinishBegun removes what is staged where HISTORY does not speak of it, and goes on with 3 or 5 where it
// does. NOT safe for concurrent use.
type Install struct {
	fsys     vfs.FS
	dir      string
	lineage  format.Lineage
	manifest *format.Manifest // nil: the log alone, from offset 0
	log      *logfile.Copy
}

// BeginInstall prepares a log that begins at start, where the first frame to come starts. m becomes the snapshot; nil
// if there is none and start is
// 0. What an earlier installation staged is removed. At most one may be at work.
func BeginInstall(fsys vfs.FS, dir string, start uint64, lineage format.Lineage, m *format.Manifest) (*Install, error) {
	if err := removeStaged(fsys, dir); err != nil {
		return nil, err
	}
	lineage.Replica = true
	return &Install{fsys: fsys, dir: dir, lineage: lineage, manifest: m,
		log: logfile.NewStagedCopy(fsys, dir, start, lineage.At(start))}, nil
}

// Position returns the log offset where the next frame must start.
func (in *Install) Position() uint64 { return in.log.End() }

// Append appends a frame of the primary, header included. A frame that is not whole, or not the next one, gives an error that
// matches ErrCorrupt. A frame of a term that the lineage does not have gives a *TermError.
func (in *Install) Append(raw []byte) error {
	var f format.Frame
	fault := format.DecodeFrame(raw, in.log.End(), &f)
	if fault == nil && len(f.Raw) != len(raw) {
		fault = &format.Fault{Want: fmt.Sprintf("%d bytes", len(f.Raw)), Got: fmt.Sprint(len(raw))}
	}
	if fault != nil {
		return fmt.Errorf("frame for log offset %d: want %s, got %s: %w", in.log.End(), fault.Want, fault.Got, format.ErrCorrupt)
	}
	if err := in.lineage.Admits(f.Start, f.Epoch); err != nil {
		return err
	}
	if err := in.log.Begin(in.lineage.At(f.Start)); err != nil {
		return err
	}
	return in.log.Append(f.Start, raw)
}

// Stage makes what has come durable. The log must have reached the snapshot's offset: otherwise ErrGap.
func (in *Install) Stage() error {
	if m := in.manifest; m != nil && in.log.End() < m.Offset {
		return fmt.Errorf("install: the log ends at %d, the snapshot is of %d: %w", in.log.End(), m.Offset, format.ErrGap)
	}
	if err := in.log.Finish(); err != nil {
		return err
	}
	for _, dir := range []string{format.LogDir(in.dir), format.ImageDir(in.dir), format.ColdDir(in.dir)} {
		if err := in.fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	if m := in.manifest; m != nil {
		return vfs.WriteFileAtomic(in.fsys, filepath.Join(in.dir, format.ManifestName(m.Generation)+format.StagedSuffix), m.AppendText(nil))
	}
	return nil
}

// Finish makes what Stage made durable the directory's content. Nobody may have the directory open (vfs.ErrLocked). An
// error may leave it unfinished, as a crash does: FinishBegun goes on.
func (in *Install) Finish() (err error) {
	lock, err := persist.LockDir(in.fsys, in.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	l := in.lineage
	l.Installing = format.InstallClear
	if err := logfile.WriteLineage(in.fsys, in.dir, &l); err != nil {
		return err
	}
	return finishInstall(in.fsys, in.dir, &l)
}

// Abort gives up before Finish: what was there stays.
func (in *Install) Abort() error {
	return errors.Join(in.log.Abort(), removeStaged(in.fsys, in.dir))
}

// finishInstall goes on with an installation that a lineage announces. It may be done again after a crash at any point.
func finishInstall(fsys vfs.FS, dir string, l *format.Lineage) error {
	if l.Installing == format.InstallClear {
		if err := wipe(fsys, dir); err != nil {
			return err
		}
		l.Installing = format.InstallName
		if err := logfile.WriteLineage(fsys, dir, l); err != nil {
			return err
		}
	}
	staged, err := listStaged(fsys, dir)
	if err != nil {
		return err
	}
	for _, path := range staged {
		if err := fsys.Rename(path, strings.TrimSuffix(path, format.StagedSuffix)); err != nil {
			return err
		}
	}
	for _, sub := range []string{format.LogDir(dir), dir} {
		if err := fsys.SyncDir(sub); err != nil {
			return err
		}
	}
	l.Installing = format.InstallNone
	return logfile.WriteLineage(fsys, dir, l)
}

// listStaged returns the paths of what an installation staged.
func listStaged(fsys vfs.FS, dir string) (paths []string, err error) {
	for _, sub := range []string{format.LogDir(dir), dir} {
		names, err := vfs.ListDir(fsys, sub)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if format.IsStaged(name) {
				paths = append(paths, filepath.Join(sub, name))
			}
		}
	}
	return paths, nil
}

// removeStaged removes what an installation staged that never came to count.
func removeStaged(fsys vfs.FS, dir string) error {
	staged, err := listStaged(fsys, dir)
	for _, path := range staged {
		err = errors.Join(err, vfs.RemoveIfThere(fsys, path))
	}
	return err
}

// wipe removes the claim, manifests and log, durably. Images and cold files stay: those that are named by nobody go when the store
// is opened.
func wipe(fsys vfs.FS, dir string) error {
	if err := logfile.RemoveClaim(fsys, dir); err != nil { // durably with the manifests
		return err
	}
	if err := snapfile.RemoveManifests(fsys, dir, func(string) bool { return false }); err != nil {
		return err
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil {
		return err
	}
	for _, s := range segs {
		if err := vfs.RemoveIfThere(fsys, s.Path); err != nil {
			return err
		}
	}
	return fsys.SyncDir(format.LogDir(dir))
}

// FinishBegun finishes a cut, an installation or a GiveUp that a crash broke off, and clears away an installation that never
// came to count. It is to be called before OpenDir.
func FinishBegun(fsys vfs.FS, dir string) (err error) {
	if err := resumeGiveUp(fsys, dir); err != nil {
		return err
	}
	l, err := logfile.ReadLineage(fsys, dir)
	if err != nil {
		return err
	}
	staged, err := listStaged(fsys, dir)
	if err != nil || l.Begun() == "" && len(staged) == 0 {
		return err
	}
	lock, err := persist.LockDir(fsys, dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if l, err = logfile.ReadLineage(fsys, dir); err != nil { // again: whoever had the lock may have finished it
		return err
	}
	return FinishBegunLocked(fsys, dir, &l)
}

// FinishBegunLocked is FinishBegun for a caller that has the directory's lock (LockDir) and has read its lineage.
func FinishBegunLocked(fsys vfs.FS, dir string, l *format.Lineage) error {
	if _, err := vfs.RemoveTemps(fsys, format.LogDir(dir)); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	switch {
	case l.Installing != format.InstallNone:
		return finishInstall(fsys, dir, l)
	case l.Cutting:
		if err := removeStaged(fsys, dir); err != nil {
			return err
		}
		return finishCut(fsys, dir, l)
	}
	return removeStaged(fsys, dir)
}
