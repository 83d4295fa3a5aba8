package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// View shows a file system as it is and keeps every change in memory: what runs on it may write, rename and remove, and
// the file system below never learns of it. Locks are granted to everybody. Tools use it to open what they must not
// touch.
//
// A directory that somebody else writes to is shown as it was when it was first listed, but for two things: a file
// removed since cannot be opened any more (fs.ErrNotExist: begin again with a new view), and a file written since shows
// what was written. For the latter there is freeze.
type View struct {
	lower  FS
	freeze func(dir string, names []string) []string

	mu    sync.Mutex // guards the rest, and makes each change one step
	upper *Sim       // files made, and copies of files changed or frozen
	gone  map[string]bool
	lists map[string][]string // of the lower file system
}

var _ FS = (*View)(nil)

// NewView returns a view. freeze, if not nil, is asked when a directory is first listed which of its files to copy to
// memory at once, as somebody appends to them.
func NewView(lower FS, freeze func(dir string, names []string) []string) *View {
	return &View{lower: lower, freeze: freeze, upper: NewSim(), gone: map[string]bool{}, lists: map[string][]string{}}
}

// above reports whether a name is in memory. REQUIRES: mu.
func (v *View) above(name string) bool {
	_, err := v.upper.Stat(name)
	return err == nil
}

// below reports whether a name shows through. REQUIRES: mu.
func (v *View) below(name string) error {
	if v.gone[name] {
		return pathError("open", name, fs.ErrNotExist)
	}
	_, err := v.lower.Stat(name)
	return err
}

// Create implements FS.
func (v *View) Create(name string) (File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.create(name)
}

func (v *View) create(name string) (File, error) {
	if v.above(name) || v.below(name) == nil {
		return nil, pathError("create", name, fs.ErrExist)
	}
	if err := v.upper.MkdirAll(filepath.Dir(name)); err != nil {
		return nil, err
	}
	return v.upper.Create(name)
}

// Open implements FS.
func (v *View) Open(name string) (File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.above(name) {
		return v.upper.Open(name)
	}
	if err := v.below(name); err != nil {
		return nil, err
	}
	return v.lower.Open(name)
}

// OpenRW implements FS. The file is copied to memory.
func (v *View) OpenRW(name string) (File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.copyUp(name); err != nil {
		return nil, err
	}
	return v.upper.OpenRW(name)
}

// copyChunk is how much copyUp reads at once.
const copyChunk = 64 << 10

// copyUp copies a file to memory. It reads from the end to the beginning: of a file that somebody appends to, the copy
// then has no hole before bytes that were there, so it is the file as it was at one moment. REQUIRES: mu.
func (v *View) copyUp(name string) (err error) {
	if v.above(name) {
		return nil
	}
	if err := v.below(name); err != nil {
		return err
	}
	from, err := v.lower.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	size, err := from.Size()
	if err != nil {
		return err
	}
	if err := v.upper.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	to, err := v.upper.Create(name)
	if err != nil {
		return err
	}
	err = to.Truncate(size)
	buf := make([]byte, copyChunk)
	for end := size; end > 0 && err == nil; {
		off := max(0, end-copyChunk)
		b := buf[:end-off]
		var n int
		if n, err = from.ReadAt(b, off); err == io.EOF {
			err = nil // cut meanwhile
		}
		if err == nil && slices.ContainsFunc(b[:n], func(c byte) bool { return c != 0 }) {
			_, err = to.WriteAt(b[:n], off)
		}
		end = off
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, v.upper.Remove(name))
	}
	return nil
}

// Remove implements FS.
func (v *View) Remove(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	above, below := v.above(name), v.below(name)
	if !above && below != nil {
		return below
	}
	if above {
		if err := v.upper.Remove(name); err != nil {
			return err
		}
	}
	v.gone[name] = true
	return nil
}

// Rename implements FS.
func (v *View) Rename(oldname, newname string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.copyUp(oldname); err != nil {
		return err
	}
	if err := v.upper.Rename(oldname, newname); err != nil {
		return err
	}
	v.gone[oldname] = true
	return nil
}

// List implements FS.
func (v *View) List(dir string) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	names, listed := v.lists[dir]
	var lowerErr error
	if !listed {
		if names, lowerErr = v.listLower(dir); lowerErr == nil {
			v.lists[dir] = names
		}
	}
	all := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return v.gone[filepath.Join(dir, name)] })
	above, err := v.upper.List(dir)
	if err != nil && lowerErr != nil {
		return nil, lowerErr
	}
	all = append(all, above...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// listLower lists a directory of the lower file system and copies what is to be frozen. A file that is to be frozen no
// more when it has been copied is not as it was at the listing: that begins anew. REQUIRES: mu.
func (v *View) listLower(dir string) ([]string, error) {
	for {
		names, err := v.lower.List(dir)
		if err != nil || v.freeze == nil {
			return names, err
		}
		frozen := v.freeze(dir, names)
		var copied []string
		for _, name := range frozen {
			path := filepath.Join(dir, name)
			if v.above(path) {
				continue
			}
			if err := v.copyUp(path); err != nil {
				return nil, err
			}
			copied = append(copied, path)
		}
		again, err := v.lower.List(dir)
		if err != nil || slices.Equal(v.freeze(dir, again), frozen) {
			return names, err
		}
		for _, path := range copied {
			if err := v.upper.Remove(path); err != nil {
				return nil, err
			}
		}
	}
}

// Stat implements FS.
func (v *View) Stat(name string) (fs.FileInfo, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if info, err := v.upper.Stat(name); err == nil && !info.IsDir() {
		return info, nil
	}
	if err := v.below(name); err != nil {
		return v.upper.Stat(name)
	}
	return v.lower.Stat(name)
}

// MkdirAll implements FS.
func (v *View) MkdirAll(dir string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.upper.MkdirAll(dir)
}

// SyncDir implements FS. There is nothing to make durable.
func (v *View) SyncDir(string) error { return nil }

// Space implements FS: what is written takes memory.
func (v *View) Space(string) (Space, error) { return Space{Free: MaxSpace}, nil }

// Lock implements FS: it locks nothing.
func (v *View) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
