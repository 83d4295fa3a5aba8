package vfs

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"syscall"
)

// Files returns the paths of all files under a directory, sorted. It is not a call of a process: it works after a crash too.
func (s *Sim) Files(dir string) (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.root
	for name := range components(dir) {
		if n = n.entries[name]; n == nil {
			return nil
		}
	}
	n.files(dir, func(p string) { paths = append(paths, p) })
	slices.Sort(paths)
	return paths
}

// files yields the paths of the files of a tree.
func (n *node) files(name string, yield func(string)) {
	if !n.isDir() {
		yield(name)
		return
	}
	for base, child := range n.entries {
		child.files(path.Join(name, base), yield)
	}
}

// Damage changes a file behind the back of all processes, as a disk does that decays: change is given the content of the file, and
// returns other content, or nil for a file that is gone. It has no number and is durable at once. Open files read the new
// content; maps keep their bytes, as pages in memory do. Unsynced sectors that do not change stay unsynced.
func (s *Sim) Damage(name string, change func(content []byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, base := s.root, ""
	for c := range components(name) {
		if base != "" {
			if dir = dir.entries[base]; dir == nil || !dir.isDir() {
				return pathError("damage", name, fs.ErrNotExist)
			}
		}
		base = c
	}
	n := dir.entries[base]
	if n == nil {
		return pathError("damage", name, fs.ErrNotExist)
	}
	if n.isDir() {
		return pathError("damage", name, syscall.EISDIR)
	}
	content := make([]byte, n.file.size)
	n.file.readAt(content, 0)
	if content = change(content); content != nil {
		n.file.damage(content)
		return nil
	}
	delete(dir.entries, base)
	delete(dir.durable, base)
	dir.pending = slices.DeleteFunc(dir.pending, func(c entryChange) bool { return c.node == n })
	return nil
}

// damage replaces the content. Changed sectors are durable.
func (c *fileContent) damage(content []byte) {
	if size := int64(len(content)); size != c.size {
		c.size, c.durableSize, c.sizes = size, size, nil
	}
	sectors := make([]*sector, sectorsFor(c.size))
	copy(sectors, c.sectors)
	for i := range sectors {
		part := content[i*sectorSize : min((i+1)*sectorSize, len(content))]
		var was sector
		if sectors[i] != nil {
			was = *sectors[i]
		}
		if bytes.Equal(was[:len(part)], part) && len(bytes.Trim(was[len(part):], "\x00")) == 0 {
			continue
		}
		next := new(sector)
		copy(next[:], part)
		sectors[i] = next
		delete(c.dirty, i)
	}
	for i := range c.dirty {
		if i >= len(sectors) {
			delete(c.dirty, i)
		}
	}
	c.sectors, c.shared = sectors, false
}
