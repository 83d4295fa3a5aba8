package counter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// LoseCold gives up what cannot be read of the cold files of a data directory, and the ranges of images that no
// snapshot has a good one of. Nobody may have the directory open, and it must open but for the image of a last block.
// say, which may be nil, is told what is lost and what was done.
//
//  1. the directory is given a past that no other node has in common: replicas take a full copy, and so does this node
//     if it is one. What is given up stands in no log, so they would go on with other posts than this node
//  2. it is opened as a server does, with all of the log, so that what was changed since is known
//  3. of each damaged cold block the rows that can be read, and those of its overlay, go to a new cold file. Partial
//     rows are given up: they would need values that nobody knows. A last block becomes a hot one again
//  4. a snapshot names the new files; the other manifests and the damaged files are set aside
//
// A crash on the way leaves a directory that opens if it did before, and a second run goes on.
func LoseCold(fsys vfs.FS, dir string, say func(string)) error {
	if say == nil {
		say = func(string) {}
	}
	faults, err := coldFaults(fsys, dir)
	if err != nil || len(faults) == 0 {
		return err
	}
	for _, f := range faults {
		say(f.Error())
	}
	lineage, err := persist.ReadLineage(fsys, dir)
	if err != nil {
		return err
	}
	epoch := uint32(1)
	if n := len(lineage.Terms); n > 0 {
		epoch = lineage.Terms[n-1].Epoch + 1
	}
	alone := persist.Lineage{Replica: lineage.Replica, Terms: []persist.Term{{ReplID: persist.NewReplID(), Epoch: epoch}}}
	if err := persist.WriteLineage(fsys, dir, &alone); err != nil {
		return err
	}
	say("what is given up stands in no log: this node and its replicas will need a full copy of their primary")
	replaced, err := loseCold(fsys, dir, faults, say)
	if err != nil {
		return err
	}
	good, bad, err := persist.ReadManifests(fsys, dir)
	if err != nil || len(good) == 0 {
		return errors.Join(append(bad, err)...)
	}
	for _, m := range good[1:] {
		if err := persist.SetAside(fsys, filepath.Join(dir, persist.ManifestName(m.Generation)), say); err != nil {
			return err
		}
	}
	for _, path := range replaced {
		if err := persist.SetAside(fsys, path, say); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

// coldFaults verifies the files of the newest snapshot.
func coldFaults(fsys vfs.FS, dir string) (faults []*persist.ColdFault, err error) {
	good, bad, err := persist.ReadManifests(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(good) == 0 {
		return nil, errors.Join(bad...)
	}
	return good[0].Faults(fsys, dir, ColdVerifier(fsys))
}

// loseCold opens the store, writes what is left of damaged cold blocks to new files and makes a snapshot. It returns
// the files that are no longer needed.
func loseCold(fsys vfs.FS, dir string, faults []*persist.ColdFault, say func(string)) (replaced []string, err error) {
	s, err := Open(dir, Options{FS: fsys, Manual: true, giveUp: true, SnapshotGrowth: -1, RetainBytes: math.MaxUint64, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, ks := range s.spaces {
		if ks == nil {
			continue
		}
		for _, b := range ks.dir.Load().blocks {
			if b.cold == nil {
				continue
			}
			readable := uint64(0)
			lost, err := readableRows(b.cold.file, func(uint64, []uint64) error {
				readable++
				return nil
			})
			if err != nil {
				return nil, err
			}
			path := b.cold.entry.Path(dir)
			if len(lost) == 0 && !slices.ContainsFunc(faults, func(f *persist.ColdFault) bool { return f.Path == path }) {
				continue
			}
			old := b.cold.file.Stat().Items
			ks.losePartial(b, say)
			replaced = append(append(replaced, path), b.cold.entry.Remains(dir)...)
			if b.open() {
				if err := s.promoteAs(ks, b.lo, true); err != nil {
					return nil, fmt.Errorf("saving what is known of %s: %w", path, err)
				}
				say(fmt.Sprintf("saved %d items, of which all is known since the image that had %d", ks.dir.Load().find(b.lo).items(), old))
				continue
			}
			if err := s.rewriteAs(ks, b.lo, true); err != nil {
				return nil, fmt.Errorf("saving what is left of %s: %w", path, err)
			}
			now := ks.dir.Load().find(b.lo).cold
			say(fmt.Sprintf("saved %d of the file's %d items, and changes since it was written: %d items in %s", readable, old, now.file.Stat().Items, now.entry.Path(dir)))
		}
	}
	return replaced, s.Snapshot()
}

// losePartial gives the partial rows of a block up, but for those that can be completed.
func (ks *keyspace) losePartial(b *block, say func(string)) {
	if ks.foldAll(b) == nil {
		return
	}
	for _, mid := range b.cold.partialMids() {
		var known []string
		for _, v := range b.cold.partial[mid] {
			if c := ks.def.Index(v.Column); c >= 0 {
				known = append(known, fmt.Sprintf("%s %d", ks.def.Columns[c].Name, v.Value))
			}
		}
		slices.SortFunc(known, cmp.Compare)
		say(fmt.Sprintf("given up: %s:%d, of which only %s is known", ks.counterName, mid, strings.Join(known, ", ")))
		ks.putPartial(b, mid, nil)
	}
}
