package coldstore

import (
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/counterd/counterd/persist/vfs"
)

// mapping is the one place that touches the bytes of a mapped file. It copies them out, so that no slice of the
// mapping leaves it, and turns a fault (the file was truncated, the disk failed) into an error.
//
// A file is mapped by its first read, and no descriptor stays open: 10^10 posts are some ten thousand files, or, as
// a server has demoted them, 150,000, and a process may have 65,530 mappings on Linux, often fewer descriptors. See
// mappings.
//
// Invariant: data is nil, or valid until unmap is called, which happens under mu only, so never while a reader
// holds it.
type mapping struct {
	pool   *mappings
	fs     vfs.FS
	name   string
	size   int64
	mu     sync.RWMutex
	data   []byte // nil: not mapped
	unmap  func() error
	closed bool

	used  atomic.Bool // since the pool's hand last passed
	held  atomic.Bool // pages of it may count as this process's memory
	place int         // in the pool, guarded by its lock
}

// mappings bounds how many files are mapped: the ones that were not read for longest are unmapped (CLOCK). The lock
// comes behind that of the mapping that is being made, and before no other that is waited for.
type mappings struct {
	limit  int
	budget mappedBudget

	mu   sync.Mutex
	ring []*mapping
	hand int
}

// mapped are those of the process, as its limit is. Half of Linux's default limit, as tables in memory and the
// collector's heap take some too.
var mapped = &mappings{limit: 32 << 10, budget: mappedBudget{beside: programPages}}

// add takes in m, which was just mapped, and unmaps others above the limit.
func (p *mappings) add(m *mapping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shrink(p.limit - 1)
	m.place = len(p.ring)
	p.ring = append(p.ring, m)
	m.used.Store(true)
}

// shrink unmaps files until there are at most n, or all others are being read.
func (p *mappings) shrink(n int) {
	for tries := 2 * len(p.ring); len(p.ring) > n && tries > 0; tries-- {
		if p.hand >= len(p.ring) {
			p.hand = 0
		}
		m := p.ring[p.hand]
		if m.used.Swap(false) || !m.mu.TryLock() {
			p.hand++
			continue
		}
		p.remove(m)
		_ = m.drop() // it was only read
		m.mu.Unlock()
	}
}

// spare unmaps some files, as the kernel gives no more.
func (p *mappings) spare() {
	p.mu.Lock()
	p.shrink(len(p.ring) - 64)
	p.mu.Unlock()
}

// remove takes m out of the ring; the last one takes its place. REQUIRES: mu.
func (p *mappings) remove(m *mapping) {
	last := p.ring[len(p.ring)-1]
	p.ring[m.place], last.place = last, m.place
	p.ring[len(p.ring)-1] = nil
	p.ring = p.ring[:len(p.ring)-1]
}

// lock locks the mapping for reading, mapped. The caller unlocks it.
func (m *mapping) lock() error {
	for {
		m.mu.RLock()
		if m.data != nil {
			if !m.used.Load() {
				m.used.Store(true)
			}
			return nil
		}
		m.mu.RUnlock()
		if err := m.open(); err != nil {
			return err
		}
	}
}

// open maps the file, unless another has.
func (m *mapping) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if m.data != nil {
		return nil
	}
	err := m.makeData()
	for _, short := range []error{syscall.ENOMEM, syscall.EMFILE} {
		if errors.Is(err, short) {
			m.pool.spare()
			err = m.makeData()
		}
	}
	if err != nil {
		return err
	}
	if b, ok := aligned(m.data, 0, int64(len(m.data))); ok {
		adviseRandom(b)
	}
	m.pool.add(m)
	return nil
}

func (m *mapping) makeData() error {
	file, err := m.fs.Open(m.name)
	if err == nil {
		m.data, m.unmap, err = file.Map(m.size)
		if cerr := file.Close(); err == nil && cerr != nil {
			err = errors.Join(cerr, m.drop())
		}
	}
	if err != nil {
		return &UnreadableError{File: m.name, Len: int(m.size), Err: err}
	}
	return nil
}

// drop unmaps. REQUIRES: mu, and data.
func (m *mapping) drop() error {
	m.data = nil
	return m.unmap()
}

// copyAt fills dst from offset off of the mapping. Scans use readAt instead.
func (m *mapping) copyAt(dst []byte, off int64) error {
	if err := m.lock(); err != nil {
		return err
	}
	err := guardedCopy(dst, m.data[off:off+int64(len(dst))])
	if !m.held.Load() {
		m.held.Store(true)
	}
	m.mu.RUnlock()
	if err != nil {
		return &UnreadableError{File: m.name, Offset: off, Len: len(dst), Err: err}
	}
	m.pool.copied(int64(len(dst)))
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

// openFile opens the file for read calls, which scans use: a scan reads ahead that way, its pages do not count as this
// process's memory, as mapped ones do, and a thread that waits for the disk does not hold up others.
func (m *mapping) openFile() (vfs.File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	file, err := m.fs.Open(m.name)
	if err != nil {
		return nil, &UnreadableError{File: m.name, Len: int(m.size), Err: err}
	}
	return file, nil
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

// release drops what the kernel counts as this process's memory for the mapping.
func (m *mapping) release() error {
	m.held.Store(false)
	m.mu.RLock()
	if m.closed {
		m.mu.RUnlock()
		return ErrClosed
	}
	fs, ok := m.fs.(unloader)
	if ok = ok && m.data != nil && fs.Unload(m.data) == nil; ok || m.data == nil {
		m.mu.RUnlock()
		return nil
	}
	m.mu.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forget()
}

// unloader is an optional interface of a vfs.FS: it takes a mapping out of the process's memory. Where it is missing, the
// file is unmapped.
type unloader interface {
	Unload(mapped []byte) error
}

// forget unmaps the mapping. REQUIRES: mu.
func (m *mapping) forget() error {
	if m.data == nil {
		return nil
	}
	m.pool.mu.Lock()
	m.pool.remove(m)
	m.pool.mu.Unlock()
	return m.drop()
}

// close waits for readers, then unmaps. The second time it returns ErrClosed.
func (m *mapping) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.closed = true
	return m.forget()
}

// populate brings a range into memory, and waits for that in a system call: a thread that waits in one does not keep a
// processor of the runtime from other goroutines, as one does that waits for a page in the mapping. Errors do not matter:
// the read will tell.
func (m *mapping) populate(off, n int64) {
	if m.lock() != nil {
		return
	}
	defer m.mu.RUnlock()
	if b, ok := aligned(m.data, off, n); ok {
		advisePopulate(b)
	}
}

// willNeed starts reading a range into memory and does not wait. Errors do not matter: the read will tell.
func (m *mapping) willNeed(p Prefetcher, off, n int64) {
	if p != nil {
		_ = p.Prefetch(m.name, off, n)
		return
	}
	if m.lock() != nil {
		return
	}
	defer m.mu.RUnlock()
	if b, ok := aligned(m.data, off, n); ok {
		adviseWillNeed(b)
	}
}
