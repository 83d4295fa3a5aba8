package datadir

import (
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
)

// choice is a snapshot, or the log alone, to start from after a repair.
type choice struct {
	m      *format.Manifest // nil: the log alone
	faults []*snapfile.BlockFault
	newer  []string // manifests to set aside for it
}

// starts tells whether a server starts from it: it answers errors for the posts of a damaged image, but needs the newest posts and the
// producers.
func (c *choice) starts() bool {
	return !slices.ContainsFunc(c.faults, func(f *snapfile.BlockFault) bool {
		return f.Block.Tier == format.TierProducers || ofNewest(f)
	})
}

// loses tells whether it loses more than another one does.
func (c *choice) loses(other *choice) bool {
	if c.starts() != other.starts() {
		return other.starts()
	}
	return snapfile.FewestLost(c.faults, other.faults) >= 0
}

// choices are the manifests that come into question.
type choices struct {
	newest *choice  // its images are good
	usable *choice  // newest, or one before it of which all cold files can be opened
	clean  *choice  // newest, or one before it of which all files are good
	holed  *choice  // with damaged images: the one by which least is lost
	seen   []string // all
	known  uint64   // the log went so far once
}

// chooseManifest chooses where everything starts from, and sets aside the manifests that are newer. In this order:
//
//   - the newest manifest with good images, or one before it if that has all cold files and the log behind it is whole
//   - the log alone, if it goes back to its beginning, has all changes (logfile.HasAll), and is whole up to where the snapshots stand
//   - a manifest with damaged cold files: best, all of them can be opened
//   - a manifest with damaged images, if a server starts from it: the posts of these images answer errors
//   - the log alone up to its damage, or if an earlier repair cut it below the snapshots. The posts have old values
//   - a manifest without the newest posts or the producers, which an operator must give up
func (r *repair) chooseManifest() error {
	found, err := r.findChoices()
	if err != nil {
		return err
	}
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return err
	}
	all, err := logfile.HasAll(r.fsys, r.dir)
	if err != nil {
		return err
	}
	newest, best := found.newest, &choice{newer: found.seen}
	switch {
	case found.clean != nil:
		best = found.clean
	case (newest == nil || len(newest.faults) > 0) && all && r.logReaches(found.known):
		if len(found.seen) > 0 {
			r.sayf("the log from its beginning holds everything that the snapshots do")
		}
	case found.usable != nil:
		best = found.usable
	case newest != nil:
		best = newest
	case found.holed != nil && found.holed.starts():
		best = found.holed
	case len(segs) > 0 && segs[0].Start == 0: // it will be cut where it is damaged
		if !all {
			if err := r.takePartOfLog(found.seen); err != nil {
				return err
			}
			best.newer = nil
		}
	case found.holed != nil:
		best = found.holed
	default:
		return ErrUnrepairable
	}
	if newest != nil && best.m != nil && best.m != newest.m {
		r.sayf("%s and the log since hold everything that %s does", filepath.Join(r.dir, format.ManifestName(best.m.Generation)), format.ManifestName(newest.m.Generation))
	}
	r.base, r.faults, r.known = best.m, best.faults, found.known
	for _, name := range best.newer {
		if err := r.setAside(name); err != nil {
			return err
		}
	}
	return nil
}

// findChoices verifies the manifests, the newest first, until one is good with all of its files.
func (r *repair) findChoices() (found choices, err error) {
	generations, err := snapfile.Generations(r.fsys, r.dir)
	if err != nil {
		return found, err
	}
	for _, g := range generations {
		r.newest = max(r.newest, g)
		name := filepath.Join(r.dir, format.ManifestName(g))
		m, faults, err := r.tryManifest(name)
		if err != nil && !snapfile.Unreadable(err) {
			return found, err
		}
		c := &choice{m, faults, slices.Clone(found.seen)}
		found.seen = append(found.seen, name)
		if m != nil {
			found.known = max(found.known, m.Offset)
		}
		switch {
		case err != nil:
			r.sayf("%s cannot be used: %v", name, err)
			if m != nil && (found.holed == nil || !c.loses(found.holed)) {
				found.holed = c
			}
			continue
		case found.newest == nil:
			found.newest = c
		case !r.logHolds(m, found.known):
			continue
		}
		if found.usable == nil && !anyUnusable(faults) {
			found.usable = c
		}
		if len(faults) == 0 {
			found.clean = c
			break
		}
	}
	if found.newest == nil && found.holed == nil && len(generations) > 0 {
		found.known, err = snapfile.NewestImage(r.fsys, r.dir)
	}
	return found, err
}

// takePartOfLog prepares for a start from a log that begins at 0 and needs a snapshot, where none can be used. The files of snapshots are set aside.
// Then the state is that of the log, and the directory is given a past that no other node has in common.
func (r *repair) takePartOfLog(manifests []string) error {
	images, err := snapfile.FindOrphans(r.fsys, r.dir, nil)
	if err != nil {
		return err
	}
	r.sayf("LOST: no snapshot can be used, and HISTORY says that an earlier repair cut the log, or was damaged: changes that only snapshots had are gone from this directory; the files set aside have them")
	if r.opts.Lacks != nil {
		if err := r.opts.Lacks(); err != nil {
			return err
		}
	}
	past, err := logfile.ReadLineage(r.fsys, r.dir)
	if err != nil {
		return err
	}
	_ = r.walkLog() // finds the history of the log; Repair sees to damage
	if len(past.Terms) == 0 {
		// HISTORY was damaged. A whole one knows the role; the log that is left may be of an earlier one.
		past.Replica = past.Replica || r.walked.History.Replica
	}
	for _, path := range slices.Concat(manifests, images) {
		if err := r.setAside(path); err != nil {
			return err
		}
	}
	r.sayf("the state is older than it was: this node and its replicas will need a full copy of their primary")
	past.NeedsSnapshot = false // last: until then a repair after a crash comes here again
	r.noLineage = false
	return writeNewPast(r.fsys, r.dir, past, r.walked.History.Epoch)
}

// logHolds tells whether the log is undamaged from a manifest's replay offset on, and reaches an offset.
func (r *repair) logHolds(m *format.Manifest, offset uint64) bool {
	before := r.base
	r.base = m
	err := r.walkLog()
	r.base = before
	return err == nil && r.walked.End >= offset
}

// logReaches tells whether the log is undamaged from its beginning up to an offset, or as a whole where nobody knows how far it went.
func (r *repair) logReaches(offset uint64) bool {
	r.base = nil
	err := r.walkLog() // damage behind the offset is cut later
	return r.walked.End >= offset && (err == nil || offset > 0)
}
