package persist

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/vfs"
)

// anyUnusable reports whether a server cannot start because of one of the faults.
func anyUnusable(faults []*ColdFault) bool {
	return slices.ContainsFunc(faults, func(f *ColdFault) bool { return f.Unusable })
}

// mendCold deals with the damaged cold files of the manifest that everything starts from. All else is repaired by then.
//
//  1. save what can be read of each into a new file;
//  2. write a manifest that names the new files in the place of the old ones and of their overlays;
//  3. set the other manifests aside, and then the files that were replaced.
//
// A crash leaves the old manifest, or the new one and files for the next run to set aside.
func (r *repair) mendCold() error {
	if len(r.faults) == 0 {
		return nil
	}
	if r.opts.Salvage == nil {
		var errs []error
		for _, f := range r.faults {
			if f.Unusable {
				errs = append(errs, f)
			} else {
				r.sayf("left as it is, the server answers errors for these mids: %v", f)
			}
		}
		return errors.Join(errs...)
	}
	m := *r.base
	m.Generation = r.newest + 1
	m.Counters = slices.Clone(r.base.Counters)
	var replaced []string
	for _, f := range r.faults {
		names, err := r.replace(&m, f)
		if err != nil {
			return fmt.Errorf("saving what is left of %s: %w", f.Path, err)
		}
		replaced = append(replaced, names...)
	}
	if err := m.Validate(); err != nil {
		return err
	}
	if err := r.fsys.SyncDir(ColdDir(r.dir)); err != nil {
		return err
	}
	name := filepath.Join(r.dir, ManifestName(m.Generation))
	if err := vfs.WriteFileAtomic(r.fsys, name, m.appendText(nil)); err != nil {
		return err
	}
	r.sayf("wrote %s, which names what was saved", name)
	generations, err := listManifests(r.fsys, r.dir)
	if err != nil {
		return err
	}
	for _, g := range generations {
		if g != m.Generation {
			if err := r.setAside(filepath.Join(r.dir, ManifestName(g))); err != nil {
				return err
			}
		}
	}
	for _, path := range replaced {
		if err := r.setAside(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

// replace puts the entry of a new cold file into m in the place of a damaged one and its overlay, and returns the paths of
// those.
func (r *repair) replace(m *Manifest, f *ColdFault) (replaced []string, err error) {
	for i := range m.Counters {
		c := &m.Counters[i]
		if c.Name != f.Counter {
			continue
		}
		var overlay *BlockFile
		blocks := make([]BlockFile, 0, len(c.Blocks))
		at := -1
		for j := range c.Blocks {
			switch b := &c.Blocks[j]; {
			case b.Block != f.Block.Block || b.Tier == TierHot:
				blocks = append(blocks, *b)
			case b.Tier == TierOverlay:
				overlay = b
				replaced = append(replaced, b.Path(r.dir))
			default:
				at = len(blocks)
				blocks = append(blocks, *b)
				replaced = append(replaced, b.Path(r.dir))
			}
		}
		r.sayf("%v", f)
		damaged := blocks[at] // its offset may have been lowered since it was found
		saved, err := r.opts.Salvage(m, c, &damaged, overlay, m.NextBlock)
		if err != nil {
			return nil, err
		}
		r.sayf("saved %d of its %d items, changes since it was written included, in %s", saved.Items, f.Block.Items, saved.Path(r.dir))
		m.NextBlock++
		blocks[at] = *saved
		c.Blocks = blocks
	}
	return replaced, nil
}
