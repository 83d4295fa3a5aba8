package datadir

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/format"
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
