package simulation

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/counterd/counterd/persist/vfs"
)

// released is a data directory as a released version left it; the formats of its files are older than today's. It has one counter,
// whose posts clients do not change.
const (
	released        = "../../../e2e/durability/testdata/releases/0.1.0.tar.gz"
	releasedCounter = "weibo"
)

// unpack puts the files of an archive with one folder into the folder data of a file system, durably.
func unpack(archive string, fsys vfs.FS) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		for at := 0; at < len(name); at++ {
			if name[at] == '/' {
				name = "data" + name[at:]
				break
			}
		}
		if h.Typeflag == tar.TypeDir {
			if path.Dir(path.Clean(h.Name)) == "." {
				name = "data"
			}
			if err := fsys.MkdirAll(name); err != nil {
				return err
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := vfs.WriteFileAtomic(fsys, name, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// inherit gives the first machine the directory of a released version. The others copy it.
func (r *Run) inherit() bool {
	if !r.Config.Released {
		return true
	}
	if err := unpack(released, r.Machines[0].disk); err != nil {
		r.Fault("the directory of the release: %v", err)
		return false
	}
	return true
}

// inherited notes the posts of the release, as the first node serves them.
func (r *Run) inherited() bool {
	if !r.Config.Released {
		return true
	}
	d, err := r.Machines[0].server().Store().Admin().Digests(releasedCounter, 0, 1<<40, 1)
	if err != nil {
		r.Fault("the posts of the release: %v", err)
		return false
	}
	r.inheritance = d[0]
	r.Story.meet("simulation: the first primary has the directory of a release")
	return true
}
