package vfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Sim is a file system in memory that knows which bytes and which directory entries are durable, and can be
// crashed at any operation.
//
// Every mutating operation that passes its checks has a number, from 0: create, write (not of zero bytes),
// truncate, preallocate, sync, rename, remove, mkdir (one for each directory made) and syncdir. CrashAt(n) makes
// operation n and every call after it fail with ErrCrashed. What the next process would find then is
//
//	Crash(seed, keep)  after a power failure: durable state, and a part of the rest drawn by lot
//	Kill()             after kill -9: everything written, still not durable
//
// Both leave the Sim as it is, so many outcomes can be drawn from one crash point, and Kill is also the cheap fork
// that carries one prepared state to many runs. Contents are shared copy-on-write between all of them.
//
// A Sim is deterministic: one history of operations and one seed give one outcome. Concurrent callers are safe but
// make the history itself a matter of scheduling.
//
// Sim reports misuse that the operating system would let pass or punish at random: see Misuse and Leaks.
//
// Lock order: mu is the only lock; it guards the fields below, all nodes and all handles.
type Sim struct {
	mu      sync.Mutex
	root    *node
	nextIno uint64 // the next node's number, the identity by which lots are drawn

	ops          int // mutating operations so far, the next operation's number
	crashAt      int // the operation to crash at, -1 for none
	crashPercent int // how much of operation crashAt is done
	crashed      bool
	capacity     int64 // bytes that all files may take together, 0: no limit

	trace   trace
	misuse  []string
	handles map[*simHandle]struct{} // open files, maps and locks
}

var _ FS = (*Sim)(nil)

// NewSim returns an empty file system: the directories "/" and ".", which are one.
func NewSim() *Sim {
	s := &Sim{nextIno: 1}
	s.init(newDir(0))
	return s
}

func (s *Sim) init(root *node) {
	s.root = root
	s.crashAt = -1
	s.handles = make(map[*simHandle]struct{})
}

// CrashAt makes operation n, counted from 0, fail with ErrCrashed without being done, and every call after it too.
// A negative n crashes never.
func (s *Sim) CrashAt(n int) { s.TornCrashAt(n, 0) }

// TornCrashAt is CrashAt for a crash in the middle of operation n. Of a write the first percent of its 512-byte
// sectors are done; any other operation is atomic, done at 100 and not done below. At 100 the operation is done
// and the caller does not learn of it.
func (s *Sim) TornCrashAt(n, percent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashAt, s.crashPercent = n, percent
}

// SetCapacity bounds the bytes that all files take together: what would pass it fails with ENOSPC and changes nothing.
// 0 is no limit. It is not carried over by Crash and Kill. A file that has no name any more takes nothing.
func (s *Sim) SetCapacity(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = n
}

// Space implements FS.
func (s *Sim) Space(dir string) (Space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.lookupDir(OpStat, dir); err != nil || s.capacity == 0 {
		return Space{Free: MaxSpace}, err
	}
	return Space{Free: max(0, s.capacity-s.root.bytes()), Total: s.capacity}, nil
}

// full reports whether a file cannot grow by n bytes. REQUIRES: mu is held.
func (s *Sim) full(n int64) bool {
	return s.capacity > 0 && n > 0 && s.root.bytes()+n > s.capacity
}

// Crashed reports whether the crash point was reached.
func (s *Sim) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// Ops returns the number of mutating operations so far. It starts at 0 in what Crash and Kill return.
func (s *Sim) Ops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// startOp numbers a mutating operation that passed all its checks and records it. It returns how many percent of it
// to do: 100, or less together with ErrCrashed. REQUIRES: mu is held and check returned nil.
func (s *Sim) startOp(o op) (percent int, err error) {
	o.num = s.ops
	s.ops++
	percent = 100
	if o.num == s.crashAt {
		s.crashed = true
		percent, err = min(max(s.crashPercent, 0), 100), ErrCrashed
		o.crashed, o.percent = true, percent
	}
	s.trace.add(o)
	return percent, err
}

// mutate runs do as the mutating operation o, which is atomic. REQUIRES: as begin.
func (s *Sim) mutate(o op, do func()) error {
	percent, err := s.startOp(o)
	if percent == 100 {
		do()
	}
	if err != nil {
		return pathError(o.kind.String(), o.name, err)
	}
	return nil
}

// check fails every call after the crash. REQUIRES: mu is held.
func (s *Sim) check(kind Op, name string) error {
	if s.crashed {
		return pathError(kind.String(), name, ErrCrashed)
	}
	return nil
}

// Create implements FS.
func (s *Sim) Create(name string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.create(OpCreate, name)
	if err != nil {
		return nil, err
	}
	return s.open(n, name, true), nil
}

// create makes an empty file. REQUIRES: mu is held.
func (s *Sim) create(kind Op, name string) (*node, error) {
	dir, base, err := s.parent(kind, name)
	if err != nil {
		return nil, err
	}
	if _, ok := dir.entries[base]; ok {
		return nil, pathError(kind.String(), name, syscall.EEXIST)
	}
	n := newFile(s.nextIno)
	return n, s.mutate(op{kind: OpCreate, name: name}, func() {
		s.nextIno++
		dir.change(entryChange{kind: entrySet, name: base, node: n})
	})
}

// Open implements FS.
func (s *Sim) Open(name string) (File, error) { return s.openExisting(OpOpen, name, false) }

// OpenRW implements FS.
func (s *Sim) OpenRW(name string) (File, error) { return s.openExisting(OpOpenRW, name, true) }

func (s *Sim) openExisting(kind Op, name string, writable bool) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.lookup(kind, name)
	if err != nil {
		return nil, err
	}
	if n.isDir() {
		return nil, pathError(kind.String(), name, syscall.EISDIR)
	}
	return s.open(n, name, writable), nil
}

// Remove implements FS.
func (s *Sim) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, base, err := s.parent(OpRemove, name)
	if err != nil {
		return err
	}
	n, ok := dir.entries[base]
	if !ok {
		return pathError("remove", name, syscall.ENOENT)
	}
	if len(n.entries) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	return s.mutate(op{kind: OpRemove, name: name}, func() {
		dir.change(entryChange{kind: entryRemove, name: base, node: n})
	})
}

// Rename implements FS.
func (s *Sim) Rename(oldname, newname string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, oldbase, err := s.parent(OpRename, oldname)
	if err != nil {
		return err
	}
	newdir, newbase, err := s.parent(OpRename, newname)
	if err != nil {
		return err
	}
	n, ok := dir.entries[oldbase]
	target, replaces := newdir.entries[newbase]
	switch {
	case dir != newdir:
		err = syscall.EXDEV
	case !ok:
		err = syscall.ENOENT
	case oldbase == newbase:
		return nil
	case replaces && target.isDir():
		err = syscall.EEXIST
	case replaces && n.isDir():
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("rename", oldname, err)
	}
	return s.mutate(op{kind: OpRename, name: oldname, newname: newname}, func() {
		dir.change(entryChange{kind: entryRename, name: newbase, old: oldbase, node: n})
	})
}

// List implements FS.
func (s *Sim) List(dir string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.lookupDir(OpList, dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(d.entries))
	for name := range d.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements FS. The time stamp is always the zero time.
func (s *Sim) Stat(name string) (fs.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.lookup(OpStat, name)
	if err != nil {
		return nil, err
	}
	info := simInfo{name: path.Base(name), mode: fileMode, ino: n.ino}
	if n.isDir() {
		info.mode = dirMode | fs.ModeDir
	} else {
		info.size = n.file.size
	}
	return info, nil
}

// MkdirAll implements FS.
func (s *Sim) MkdirAll(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(OpMkdir, dir); err != nil {
		return err
	}
	if dir == "" {
		return pathError("mkdir", dir, syscall.ENOENT)
	}
	d, made := s.root, ""
	if path.IsAbs(dir) {
		made = "/"
	}
	for name := range components(dir) {
		made = path.Join(made, name)
		child, ok := d.entries[name]
		if !ok {
			child = newDir(s.nextIno)
			err := s.mutate(op{kind: OpMkdir, name: made}, func() {
				s.nextIno++
				d.change(entryChange{kind: entrySet, name: name, node: child})
			})
			if err != nil {
				return err
			}
		}
		if !child.isDir() {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		d = child
	}
	return nil
}

// SyncDir implements FS.
func (s *Sim) SyncDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.lookupDir(OpSyncDir, dir)
	if err != nil {
		return err
	}
	return s.mutate(op{kind: OpSyncDir, name: dir}, d.sync)
}

// lookup finds the node of a name. REQUIRES: mu is held.
func (s *Sim) lookup(kind Op, name string) (*node, error) {
	err := s.check(kind, name)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, pathError(kind.String(), name, syscall.ENOENT)
	}
	n := s.root
	for c := range components(name) {
		if !n.isDir() {
			return nil, pathError(kind.String(), name, syscall.ENOTDIR)
		}
		child, ok := n.entries[c]
		if !ok {
			return nil, pathError(kind.String(), name, syscall.ENOENT)
		}
		n = child
	}
	return n, nil
}

// lookupDir finds a directory. REQUIRES: mu is held.
func (s *Sim) lookupDir(kind Op, name string) (*node, error) {
	n, err := s.lookup(kind, name)
	if err == nil && !n.isDir() {
		return nil, pathError(kind.String(), name, syscall.ENOTDIR)
	}
	return n, err
}

// parent finds the directory of a name and its last component. REQUIRES: mu is held.
func (s *Sim) parent(kind Op, name string) (dir *node, base string, err error) {
	if name == "" {
		return nil, "", pathError(kind.String(), name, syscall.ENOENT)
	}
	clean := path.Clean("/" + name)
	if clean == "/" {
		return nil, "", pathError(kind.String(), name, syscall.EBUSY)
	}
	dirname, base := path.Split(clean)
	dir, err = s.lookupDir(kind, dirname)
	if err != nil {
		err.(*fs.PathError).Path = name
	}
	return dir, base, err
}

// components yields the names on a path from the root.
func components(name string) func(yield func(string) bool) {
	clean := path.Clean("/" + name)[1:]
	if clean == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(clean, "/")
}
