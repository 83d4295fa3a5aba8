package datadir

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
)

// nameManifests gives manifests that are whole but bear another's name, as after a copy by hand that swapped two, names
// of their own. It leaves them alone where a good one is there: that one is what a server starts from. The newest is
// written first, as a crash in between leaves the older ones out.
func (r *repair) nameManifests() error {
	good, _, err := snapfile.ReadManifests(r.fsys, r.dir)
	if err != nil || len(good) > 0 {
		return err
	}
	generations, err := snapfile.Generations(r.fsys, r.dir)
	if err != nil || len(generations) == 0 {
		return err
	}
	newest := generations[0]
	type misnamed struct {
		path string
		m    *format.Manifest
	}
	var found []misnamed
	for _, g := range generations {
		path := filepath.Join(r.dir, format.ManifestName(g))
		m, err := snapfile.ReadAnyManifest(r.fsys, path)
		if errors.Is(err, format.ErrCorrupt) {
			continue
		} else if err != nil {
			return err
		}
		found = append(found, misnamed{path, m})
	}
	slices.SortFunc(found, func(a, b misnamed) int { return cmp.Compare(b.m.Generation, a.m.Generation) })
	for i, f := range found {
		was := f.m.Generation
		f.m.Generation = newest + uint64(len(found)-i)
		if err := snapfile.WriteManifest(r.fsys, r.dir, f.m); err != nil {
			return err
		}
		r.sayf("%s holds generation %d: wrote it as %s", f.path, was, filepath.Join(r.dir, format.ManifestName(f.m.Generation)))
	}
	for _, f := range found {
		if err := r.setAside(f.path); err != nil {
			return err
		}
	}
	return nil
}

// chooseManifest finds the newest manifest with good files and sets newer ones aside. Damaged cold files leave it as
// the choice for want of a better one.
func (r *repair) chooseManifest() error {
	generations, err := snapfile.Generations(r.fsys, r.dir)
	if err != nil {
		return err
	}
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return err
	}
	// The newest manifest with good images is the choice, but for damaged cold files: then one that has none, and a whole
	// log from there on, is better; then one whose cold files can all be opened.
	type choice struct {
		m      *format.Manifest
		faults []*snapfile.BlockFault
		newer  []string // manifests to set aside for it
	}
	var newest, usable, clean *choice
	var holed *choice // with damaged images: the one by which the fewest items are lost
	var seen []string
	var known uint64 // the log went so far once
	for _, g := range generations {
		r.newest = max(r.newest, g)
		name := filepath.Join(r.dir, format.ManifestName(g))
		m, faults, err := r.tryManifest(name)
		if err != nil {
			if !snapfile.Unreadable(err) {
				return err
			}
			r.sayf("%s cannot be used: %v", name, err)
			if m != nil {
				known = max(known, m.Offset)
				if holed == nil || snapfile.FewestLost(faults, holed.faults) < 0 {
					holed = &choice{m, faults, slices.Clone(seen)}
				}
			}
			seen = append(seen, name)
			continue
		}
		c := &choice{m, faults, slices.Clone(seen)}
		seen = append(seen, name)
		known = max(known, m.Offset)
		if newest != nil && !r.logHolds(m, known) {
			continue
		}
		if newest == nil {
			newest = c
		}
		if usable == nil && !anyUnusable(faults) {
			usable = c
		}
		if len(faults) == 0 {
			clean = c
			break
		}
	}
	var best *choice
	switch {
	case clean != nil:
		best = clean
	case (newest == nil || len(newest.faults) > 0) && r.logHolds(nil, known):
		if len(seen) > 0 {
			r.sayf("the log from its beginning holds everything")
		}
		best = &choice{newer: seen}
	case usable != nil:
		best = usable
	case newest != nil:
		best = newest
	case len(segs) > 0 && segs[0].Start == 0: // it will be cut where it is damaged
		best = &choice{newer: seen}
	case holed != nil:
		best = holed
	default:
		return ErrUnrepairable
	}
	if newest != nil && best.m != nil && best.m != newest.m {
		r.sayf("%s and the log since hold everything that %s does", filepath.Join(r.dir, format.ManifestName(best.m.Generation)), format.ManifestName(newest.m.Generation))
	}
	r.base, r.faults, r.known = best.m, best.faults, known
	for _, name := range best.newer {
		if err := r.setAside(name); err != nil {
			return err
		}
	}
	return nil
}

// logHolds tells whether the log is undamaged from a manifest's replay offset on, or from its beginning for nil, and
// reaches an offset.
func (r *repair) logHolds(m *format.Manifest, offset uint64) bool {
	before := r.base
	r.base = m
	err := r.walkLog()
	r.base = before
	return err == nil && r.walked.End >= offset
}

// tryManifest reads a manifest and verifies its files. err is damage of the manifest, or, with the manifest, of images;
// faults are those of all files.
func (r *repair) tryManifest(name string) (m *format.Manifest, faults []*snapfile.BlockFault, err error) {
	m, err = snapfile.ReadManifest(r.fsys, name)
	if err != nil {
		return nil, nil, err
	}
	faults, err = snapfile.Faults(m, r.fsys, r.dir, r.opts.Cold)
	for _, f := range faults {
		if f.Block.Tier != format.TierCold {
			err = errors.Join(err, f)
		}
	}
	return m, faults, err
}

// dropManifests sets aside the manifests that drop chooses; nil is one that is damaged.
func (r *repair) dropManifests(drop func(*format.Manifest) bool) error {
	generations, err := snapfile.Generations(r.fsys, r.dir)
	for _, g := range generations {
		if err != nil {
			return err
		}
		name := filepath.Join(r.dir, format.ManifestName(g))
		m, readErr := snapfile.ReadManifest(r.fsys, name)
		if readErr != nil && !errors.Is(readErr, format.ErrCorrupt) {
			return readErr
		}
		if drop(m) {
			err = r.setAside(name)
		}
	}
	return err
}
