package datadir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// LoseOptions are the options of LoseUnreadable.
type LoseOptions struct {
	Say  func(string)       // told what is lost and what was done; nil: nobody is
	Cold snapfile.ColdCheck // as in CheckOptions

	Lacks func() error // called before anything is given up, as in RepairOptions

	// Salvage writes what can be read of damaged files to new ones, makes a snapshot that names those, and returns the
	// paths of the files that are no longer needed: counter.Salvage.
	Salvage func(fsys vfs.FS, dir string, faults []*snapfile.BlockFault, say func(string)) (replaced []string, err error)
}

// LoseUnreadable gives up what cannot be read of the cold files of a data directory, and the ranges of images that no
// snapshot has a good one of. The directory must not be open, and a start must fail for nothing but the image of a last block.
//
//  1. the directory is given a past that no other node has in common: replicas take a full copy, and so does this node
//     if it is one. What is given up stands in no log, so they would go on with other posts than this node
//  2. it is opened as a server does, with all of the log, so that what was changed since is known
//  3. of each damaged cold block the rows that can be read, and those of its overlay, go to a new cold file. Partial
//     rows are given up: they would need values that nobody knows. A last block becomes a hot one again
//  4. a snapshot names the new files; the other manifests and the damaged files are set aside
//
// A crash on the way leaves a directory that opens if it did before, and a second run goes on.
func LoseUnreadable(fsys vfs.FS, dir string, opts LoseOptions) error {
	say := opts.Say
	if say == nil {
		say = func(string) {}
	}
	faults, err := unreadable(fsys, dir, opts.Cold)
	if err != nil || len(faults) == 0 {
		return err
	}
	for _, f := range faults {
		say(f.Error())
	}
	lineage, err := logfile.ReadLineage(fsys, dir)
	if err != nil {
		return err
	}
	if opts.Lacks != nil {
		if err := opts.Lacks(); err != nil {
			return err
		}
	}
	lineage.NeedsSnapshot = true
	if err := writeNewPast(fsys, dir, lineage, 0); err != nil {
		return err
	}
	say("what is given up stands in no log: this node and its replicas will need a full copy of their primary")
	replaced, err := opts.Salvage(fsys, dir, faults, say)
	if err != nil {
		return err
	}
	good, bad, err := snapfile.ReadManifests(fsys, dir)
	if err != nil || len(good) == 0 {
		return errors.Join(append(bad, err)...)
	}
	for _, m := range good[1:] {
		if err := past.SetAside(fsys, filepath.Join(dir, format.ManifestName(m.Generation)), say); err != nil {
			return err
		}
	}
	for _, path := range replaced {
		if err := past.SetAside(fsys, path, say); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// unreadable verifies the files of the newest snapshot.
func unreadable(fsys vfs.FS, dir string, cold snapfile.ColdCheck) (faults []*snapfile.BlockFault, err error) {
	good, bad, err := snapfile.ReadManifests(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(good) == 0 {
		return nil, errors.Join(bad...)
	}
	return snapfile.Faults(good[0], fsys, dir, cold)
}

// writeNewPast gives a directory a past that no other node has in common, instead of the given one. epoch is one of its log, if known.
func writeNewPast(fsys vfs.FS, dir string, was format.Lineage, epoch uint32) error {
	epoch = max(epoch, was.Current().Epoch)
	alone := format.Lineage{Replica: was.Replica, Terms: []format.Term{{ReplID: format.NewReplID(), Epoch: epoch + 1}}, Cursors: was.Cursors, NeedsSnapshot: was.NeedsSnapshot}
	return logfile.WriteLineage(fsys, dir, &alone)
}
