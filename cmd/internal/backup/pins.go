package backup

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/counterd/counterd/persist/vfs"
)

// pins is a file system on which files of a directory are held open: they can be read after the server has removed
// them, as it does with those of the snapshot before the last. So a backup of hours gets through.
type pins struct {
	vfs.FS
	files map[string]pin
}

type pin struct {
	vfs.File
	info fs.FileInfo
}

// Close leaves it open: others read it too.
func (pin) Close() error { return nil }

// pin holds a file open. Where there are too many for that it is read when its turn comes, if it is there then.
func (p *pins) pin(path string) error {
	f, err := p.FS.Open(path)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := p.FS.Stat(path)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.files[path] = pin{f, info}
	return nil
}

// release closes half of all, where something else needs descriptors, or all.
func (p *pins) release(keep int) {
	for path, f := range p.files {
		if len(p.files) <= keep {
			return
		}
		_ = f.File.Close() // it was only read
		delete(p.files, path)
	}
}

func (p *pins) Open(path string) (vfs.File, error) {
	if f, ok := p.files[path]; ok {
		return f, nil
	}
	return p.FS.Open(path)
}

func (p *pins) Stat(path string) (fs.FileInfo, error) {
	if f, ok := p.files[path]; ok {
		return f.info, nil
	}
	return p.FS.Stat(path)
}
