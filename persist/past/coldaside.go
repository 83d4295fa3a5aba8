package past

import (
	"path/filepath"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ColdAside returns the paths of the cold files of a size that GiveUp has set aside.
func ColdAside(fsys vfs.FS, dir string, size int64) (paths []string, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	for _, folder := range names {
		if was, _, ok := format.ParseDamaged(folder); !ok || was != format.ColdDirName {
			continue
		}
		files, err := fsys.List(filepath.Join(dir, folder))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			path := filepath.Join(dir, folder, name)
			if info, err := fsys.Stat(path); err == nil && info.Size() == size { // files that cannot be read are of no use
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}
