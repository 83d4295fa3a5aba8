package durable

import (
	"errors"
	"maps"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

// VerifyImages reads all images that a manifest of the store names, and returns their faults. Those that a kept manifest still
// names are written anew from memory, by a snapshot that it starts beside all other work.
func (v *Snapshots) VerifyImages(m *format.Manifest) error {
	bad, _ := v.readImages(m, make(map[string]bool), nil) // only a pace has errors
	v.mend(bad)
	return errors.Join(slices.Collect(maps.Values(bad))...)
}

// readImages reads the images that a manifest names and that were not seen before, and returns the faults by the names of files. It
// calls pace, if not nil, behind each image with its size; an error of pace ends it, and is returned.
func (v *Snapshots) readImages(m *format.Manifest, seen map[string]bool, pace func(bytes int) error) (bad map[string]error, err error) {
	bad = make(map[string]error)
	err = m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier == format.TierCold || seen[b.Name] {
			return nil
		}
		seen[b.Name] = true
		if fault := snapfile.CheckBlock(v.s.Config.FS, v.s.Dir.Path(), c, b, nil); fault != nil {
			bad[b.Name] = fault
			return nil // it may be gone: of those nothing was read
		}
		if pace == nil {
			return nil
		}
		return pace(int(b.Bytes))
	})
	return bad, err
}

// mend has damaged images written anew, and returns how many there are. A file that no kept manifest names any more does not count: newer
// snapshots took its place while others were read, and it was removed.
//
// To read 10 GB of images takes 20 minutes (DefaultScrubRate), and a busy store makes several snapshots meanwhile. So a damaged file of
// an old snapshot is looked for in those that are kept now.
func (v *Snapshots) mend(bad map[string]error) int {
	names := make(map[string]bool)
	var sound, damaged []*format.Manifest
	for _, m := range v.s.Dir.Manifests() {
		whole := true
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			if bad[b.Name] != nil {
				names[b.Name], whole = true, false
			}
			return nil
		})
		if whole {
			sound = append(sound, m)
		} else {
			damaged = append(damaged, m)
		}
	}
	if len(names) == 0 {
		return 0
	}
	if len(sound) > 0 {
		// They count until there is a new one, and are kept then.
		v.s.Dir.Reject(damaged)
	}
	v.remake(names)
	return len(names)
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
