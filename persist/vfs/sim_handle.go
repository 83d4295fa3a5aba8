package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"
)

// handleKind says what a simHandle holds.
type handleKind uint8

const (
	handleFile handleKind = iota
	handleMap
	handleLock
)

func (k handleKind) String() string { return [...]string{"file", "map", "lock"}[k] }

// simHandle is an open file, a map or a lock of a Sim. All fields are guarded by Sim.mu.
type simHandle struct {
	sim      *Sim
	kind     handleKind
	node     *node
	name     string
	writable bool
	closed   bool
}

var _ File = (*simHandle)(nil)

// open registers a handle. REQUIRES: mu is held.
func (s *Sim) open(n *node, name string, writable bool) *simHandle {
	h := &simHandle{sim: s, kind: handleFile, node: n, name: name, writable: writable}
	s.handles[h] = struct{}{}
	return h
}

// release ends a handle of any kind. After a crash it does so too, and fails as every call does.
func (h *simHandle) release() error {
	s := h.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.closed {
		s.misused("second close of the %s %s", h.kind, h.name)
		return pathError("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	delete(s.handles, h)
	if h.kind == handleLock {
		h.node.locked = false
	}
	return s.check(OpClose, h.name)
}

// misused records a call that correct code does not make. REQUIRES: mu is held.
func (s *Sim) misused(format string, args ...any) {
	s.misuse = append(s.misuse, fmt.Sprintf("before op %d: ", s.ops)+fmt.Sprintf(format, args...))
}

// Misuse returns the calls so far that correct storage code does not make: any use of a closed file, a second close,
// a write to a file opened for reading.
func (s *Sim) Misuse() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.misuse)
}

// Leaks returns the open files, maps and locks, sorted.
func (s *Sim) Leaks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaks := make([]string, 0, len(s.handles))
	for h := range s.handles {
		leaks = append(leaks, h.kind.String()+" "+h.name)
	}
	slices.Sort(leaks)
	return leaks
}

// Lock implements FS. The lock is free in what Crash and Kill return.
func (s *Sim) Lock(name string) (io.Closer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, base, err := s.parent(OpLock, name)
	if err != nil {
		return nil, err
	}
	n, ok := dir.entries[base]
	if !ok {
		if n, err = s.create(OpLock, name); err != nil {
			return nil, err
		}
	}
	switch {
	case n.isDir():
		return nil, pathError("lock", name, syscall.EISDIR)
	case n.locked:
		return nil, pathError("lock", name, ErrLocked)
	}
	n.locked = true
	h := &simHandle{sim: s, kind: handleLock, node: n, name: name}
	s.handles[h] = struct{}{}
	return simLock{h}, nil
}

// simLock is the io.Closer of a lock.
type simLock struct{ h *simHandle }

func (l simLock) Close() error { return l.h.release() }

// use starts a call on an open file. REQUIRES: mu is held.
func (h *simHandle) use(kind Op) error {
	if h.closed {
		h.sim.misused("%s of the closed file %s", kind, h.name)
		return pathError(kind.String(), h.name, fs.ErrClosed)
	}
	if err := h.sim.check(kind, h.name); err != nil {
		return err
	}
	if kind&(OpWrite|OpTruncate|OpPreallocate) != 0 && !h.writable {
		h.sim.misused("%s of %s, opened for reading", kind, h.name)
		errno := syscall.EBADF
		if kind == OpTruncate {
			errno = syscall.EINVAL // as ftruncate does
		}
		return pathError(kind.String(), h.name, errno)
	}
	return nil
}

// Name implements File.
func (h *simHandle) Name() string { return h.name }

// Close implements File.
func (h *simHandle) Close() error { return h.release() }

// ReadAt implements File.
func (h *simHandle) ReadAt(p []byte, off int64) (int, error) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	if err := h.use(OpRead); err != nil {
		return 0, h.ioError("read", off, len(p), 0, err)
	}
	if off < 0 {
		return 0, h.ioError("read", off, len(p), 0, syscall.EINVAL)
	}
	n := h.node.file.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (h *simHandle) WriteAt(p []byte, off int64) (int, error) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	err := h.use(OpWrite)
	switch {
	case err != nil:
	case off < 0:
		err = syscall.EINVAL
	case len(p) == 0:
		return 0, nil
	case off > maxSimFile-int64(len(p)):
		err = syscall.EFBIG
	case h.sim.full(off + int64(len(p)) - h.node.file.size):
		err = syscall.ENOSPC
	}
	if err != nil {
		return 0, h.ioError("write", off, len(p), 0, err)
	}
	percent, err := h.sim.startOp(op{kind: OpWrite, name: h.name, off: off, len: int64(len(p))})
	n := tornLen(off, len(p), percent)
	h.node.file.writeAt(p[:n], off)
	if err != nil {
		return 0, h.ioError("write", off, len(p), 0, err) // the dead do not learn how much was written
	}
	return n, nil
}

// tornLen returns the length of the first percent of the sectors that a write of n bytes at off touches.
func tornLen(off int64, n, percent int) int {
	first, end := off/sectorSize, (off+int64(n)+sectorSize-1)/sectorSize
	cut := (first + (end-first)*int64(percent)/100) * sectorSize
	return int(min(max(cut-off, 0), int64(n)))
}

func (h *simHandle) ioError(op string, off int64, want, done int, err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return &IOError{Op: op, Name: h.name, Off: off, Want: want, Done: done, Err: err}
}

// mutate runs do as an atomic operation on the open file.
func (h *simHandle) mutate(kind Op, size int64, do func(c *fileContent)) error {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	if size < 0 {
		return pathError(kind.String(), h.name, syscall.EINVAL)
	}
	if err := h.use(kind); err != nil {
		return err
	}
	if kind&(OpTruncate|OpPreallocate) != 0 && h.sim.full(size-h.node.file.size) {
		return pathError(kind.String(), h.name, syscall.ENOSPC)
	}
	return h.sim.mutate(op{kind: kind, name: h.name, len: size}, func() { do(h.node.file) })
}

// Sync implements File.
func (h *simHandle) Sync() error {
	return h.mutate(OpSync, 0, func(c *fileContent) { c.sync() })
}

// Truncate implements File.
func (h *simHandle) Truncate(size int64) error {
	return h.mutate(OpTruncate, size, func(c *fileContent) { c.truncate(size) })
}

// Preallocate implements File.
func (h *simHandle) Preallocate(size int64) error {
	return h.mutate(OpPreallocate, size, func(c *fileContent) { c.preallocate(size) })
}

// failSync loses the unsynced bytes as a failed fsync does: what Faulty calls instead of Sync.
func (h *simHandle) failSync() {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	if h.use(OpSync) == nil {
		lost := h.node.file.failSync()
		h.sim.trace.note("sync %s failed, %d sectors lost", h.name, lost)
	}
}

// Size implements File.
func (h *simHandle) Size() (int64, error) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	if err := h.use(OpSize); err != nil {
		return 0, err
	}
	return h.node.file.size, nil
}

// unmappedByte fills a map after unmap, so that a late reader gets no plausible value.
const unmappedByte = 0xdb

// Map implements File. The bytes are a copy; unmap overwrites them.
func (h *simHandle) Map(size int64) ([]byte, func() error, error) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	if err := h.use(OpMap); err != nil {
		return nil, nil, err
	}
	if err := checkMap(h.name, size, h.node.file.size); err != nil {
		return nil, nil, err
	}
	data := make([]byte, size)
	h.node.file.readAt(data, 0)
	m := &simHandle{sim: h.sim, kind: handleMap, node: h.node, name: h.name}
	h.sim.handles[m] = struct{}{}
	return data, func() error {
		err := m.release()
		for i := range data {
			data[i] = unmappedByte
		}
		return err
	}, nil
}
