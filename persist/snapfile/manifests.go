package snapfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ReadManifest reads a manifest file. Damage, and a generation that is not the one of its name, give a *CorruptError, a
// version that is not read ErrUnsupportedFormat.
func ReadManifest(fsys vfs.FS, path string) (*format.Manifest, error) {
	m, err := ReadAnyManifest(fsys, path)
	if err != nil {
		return nil, err
	}
	if g, named := format.ParseManifestName(filepath.Base(path)); named && m.Generation != g {
		return nil, &format.CorruptError{File: path, Want: fmt.Sprintf("generation %d as in the name", g), Got: fmt.Sprintf("%d", m.Generation)}
	}
	return m, nil
}

// WriteManifest writes a manifest to the file of its generation, durably. The directory must not be open: see
// Dir.WriteManifest.
func WriteManifest(fsys vfs.FS, dir string, m *format.Manifest) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, format.ManifestName(m.Generation)), m.AppendText(nil))
}

// ReadAnyManifest is ReadManifest whatever the file's name.
func ReadAnyManifest(fsys vfs.FS, path string) (*format.Manifest, error) {
	text, err := vfs.ReadFile(fsys, path, format.MaxManifest)
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, &format.CorruptError{File: path, Want: fmt.Sprintf("at most %d bytes", format.MaxManifest), Got: "more", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return format.ParseManifest(path, text)
}

// ReadManifests returns the good manifests of a data directory, newest first, and a *CorruptError for each other one.
func ReadManifests(fsys vfs.FS, dir string) (good []*format.Manifest, bad []error, err error) {
	good, bad, _, err = ListManifests(fsys, dir)
	return good, bad, err
}

// ListManifests reads all manifests of a data directory, newest first.
func ListManifests(fsys vfs.FS, path string) (good []*format.Manifest, bad []error, newest uint64, err error) {
	generations, err := Generations(fsys, path)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, g := range generations {
		newest = max(newest, g)
		name := filepath.Join(path, format.ManifestName(g))
		m, err := ReadManifest(fsys, name)
		switch {
		case err == nil:
			good = append(good, m)
		case errors.Is(err, format.ErrCorrupt):
			bad = append(bad, err)
		default:
			return nil, nil, 0, err
		}
	}
	return good, bad, newest, nil
}

// RemoveManifests removes, durably, those that keep does not want.
func RemoveManifests(fsys vfs.FS, dir string, keep func(path string) bool) error {
	generations, err := Generations(fsys, dir)
	if err != nil {
		return err
	}
	for _, g := range generations {
		path := filepath.Join(dir, format.ManifestName(g))
		if keep(path) {
			continue
		}
		if err := vfs.RemoveIfThere(fsys, path); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// Generations returns the generations of the manifests of a data directory, newest first. It reads none of them.
func Generations(fsys vfs.FS, path string) ([]uint64, error) {
	names, err := vfs.ListDir(fsys, path)
	if err != nil {
		return nil, err
	}
	var generations []uint64
	for _, name := range names {
		if g, ok := format.ParseManifestName(name); ok {
			generations = append(generations, g)
		}
	}
	slices.SortFunc(generations, func(a, b uint64) int { // numbers, not names: 10 is newer than 9
		if a > b {
			return -1
		}
		return 1
	})
	return generations, nil
}

// NewestImage returns the highest log offset at which an image of a data directory stands, by the names of the images. Without a manifest it is the
// only sign of how far the log went.
func NewestImage(fsys vfs.FS, dir string) (offset uint64, err error) {
	names, err := vfs.ListDir(fsys, format.ImageDir(dir))
	for _, name := range names {
		if at, ok := format.ParseImageName(name); ok {
			offset = max(offset, at)
		}
	}
	return offset, err
}

// FindOrphans returns the paths of block files of a data directory that none of some manifests names.
func FindOrphans(fsys vfs.FS, dir string, manifests []*format.Manifest) (orphans []string, err error) {
	named := map[string]bool{}
	for _, m := range manifests {
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
			named[b.Path(dir)] = true
			for _, path := range b.Remains(dir) {
				named[path] = true
			}
			return nil
		})
	}
	for _, sub := range []string{format.ImageDir(dir), format.ColdDir(dir)} {
		names, err := vfs.ListDir(fsys, sub)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			block := strings.HasSuffix(name, format.ImageSuffix) || strings.HasSuffix(name, format.ColdSuffix)
			if path := filepath.Join(sub, name); block && !named[path] {
				orphans = append(orphans, path)
			}
		}
	}
	return orphans, nil
}
