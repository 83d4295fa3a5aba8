package durable

import (
	"errors"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

// VerifyImages reads all images that a manifest of the store names, and returns their faults. Those that are
// damaged are written anew from memory, by a snapshot that it starts beside all other work. It calls pace, if not nil,
// behind each image with its size; an error of pace ends it and is returned.
func (v *Snapshots) VerifyImages(m *format.Manifest, pace func(bytes int) error) error {
	bad := make(map[string]bool)
	var errs []error
	stopped := m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier == format.TierCold {
			return nil
		}
		if err := snapfile.CheckBlock(v.s.Config.FS, v.s.Dir.Path(), c, b, nil); err != nil {
			errs, bad[b.Name] = append(errs, err), true
		}
		if pace == nil {
			return nil
		}
		return pace(int(b.Bytes))
	})
	kept := v.s.Dir.Manifests()
	if len(bad) > 0 && slices.Contains(kept, m) { // else it has gone meanwhile, and with it its files
		if len(kept) > 1 {
			// The other snapshot counts until there is a new one, and is kept then.
			v.s.Dir.Reject([]*format.Manifest{m})
		}
		v.remake(bad)
	}
	return errors.Join(append(errs, stopped)...)
}

// remake has images written anew.
func (v *Snapshots) remake(names map[string]bool) {
	v.s.Gate.RLock()
	for ks := range v.s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			b.Mu.Lock()
			if b.Image != nil && names[b.Image.Name] {
				b.Dirty = true
			}
			b.Mu.Unlock()
		}
	}
	v.s.Gate.RUnlock()
	v.s.Producers.Lose(func(image *format.BlockFile) bool { return names[image.Name] })
	for name := range names {
		v.s.Config.Logger.Error("a block image is damaged; making a snapshot that replaces it", "file", name)
	}
	// Behind the marks: one that is being made may have passed these blocks, and one may fail.
	v.renewBeside()
}
