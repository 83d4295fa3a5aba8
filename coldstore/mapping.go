package coldstore

import (
	"io"
	"runtime/debug"
	"sync"

	"github.com/counterd/counterd/persist/vfs"
)

// mapping is the one place that touches the bytes of a mapped file. It copies them out, so that no slice of the
// mapping leaves it, and turns a fault (the file was truncated, the disk failed) into an error.
//
// Invariant: data is nil, or valid until unmap is called, which happens under mu only, so never while a reader
// holds it.
type mapping struct {
	mu    sync.RWMutex
	file  vfs.File
	size  int64
	data  []byte
	unmap func() error
}

func (m *mapping) open() (err error) {
	if m.size == 0 {
		return nil
	}
	m.data, m.unmap, err = m.file.Map(m.size)
	m.advise()
	return err
}

func (m *mapping) advise() {
	if b, ok := aligned(m.data, 0, int64(len(m.data))); ok {
		adviseRandom(b)
	}
}

// copyAt fills dst from offset off of the mapping. Scans use readAt instead.
func (m *mapping) copyAt(dst []byte, off int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.data == nil {
		return ErrClosed
	}
	if err := guardedCopy(dst, m.data[off:off+int64(len(dst))]); err != nil {
		return &UnreadableError{File: m.file.Name(), Offset: off, Len: len(dst), Err: err}
	}
	return nil
}

// guardedCopy is copy, with a memory fault as an error. The setting is per goroutine; it costs 5 ns.
func guardedCopy(dst, src []byte) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			fault, ok := r.(interface {
				error
				Addr() uintptr // only memory faults have it
			})
			if !ok {
				panic(r)
			}
			err = fault
		}
	}()
	copy(dst, src)
	return nil
}

// readAt fills dst by a read call. A scan reads ahead that way, its pages do not count as this process's memory, as
// mapped ones do, and a thread that waits for the disk does not hold up others.
func (m *mapping) readAt(dst []byte, off int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.data == nil {
		return ErrClosed
	}
	return readFull(m.file, dst, off)
}

func readFull(f vfs.File, dst []byte, off int64) error {
	n, err := f.ReadAt(dst, off)
	if n == len(dst) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &UnreadableError{File: f.Name(), Offset: off, Len: len(dst), Err: err}
}

// renew maps the file anew and drops the old mapping, with what the kernel counts as this process's memory for it.
func (m *mapping) renew() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return ErrClosed
	}
	data, unmap, err := m.file.Map(m.size)
	if err != nil {
		return err
	}
	err = m.unmap()
	m.data, m.unmap = data, unmap
	m.advise()
	return err
}

// close waits for readers, then unmaps. The second time it returns ErrClosed.
func (m *mapping) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return ErrClosed
	}
	m.data = nil
	err := m.unmap()
	if cerr := m.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// willNeed starts reading a range into memory and does not wait. Errors do not matter: the read will tell.
func (m *mapping) willNeed(p Prefetcher, off, n int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.data == nil {
		return
	}
	if p != nil {
		_ = p.Prefetch(off, n)
	} else if b, ok := aligned(m.data, off, n); ok {
		adviseWillNeed(b)
	}
}

// inMemory says whether the first page of a range is in memory, as far as can be known.
func (m *mapping) inMemory(off, n int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.data == nil {
		return true
	}
	b, ok := aligned(m.data, off, n)
	return !ok || inMemory(b)
}

// noMap is a file that is only read.
type noMap struct{ vfs.File }

func (noMap) Map(int64) ([]byte, func() error, error) { return nil, nil, nil }
