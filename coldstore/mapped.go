package coldstore

import (
	"sync"
	"sync/atomic"
)

// mappedBudget bounds what the kernel counts as this process's memory for pages of mapped files. A page counts from its
// first read on, and with it those around it that the kernel has, whatever it was advised: 100 reads a ms can be 400 MB in
// 0.1 s. As soon as copies may have passed the limit, the reader measures the memory that counts, and removes the pages of
// all read files from the process. They stay in the kernel's cache, from where the next read costs a fault.
type mappedBudget struct {
	most     atomic.Int64 // 0: no limit
	left     atomic.Int64 // bytes to be copied until the next look
	beside   int64        // memory that counts for other files
	looking  sync.Mutex
	releases atomic.Int64
}

const (
	// programPages is about how many other pages count: those of the program itself.
	programPages = 24 << 20
	// faultAround is how many times the page that is read a fault brings in at most: 64 KiB, Linux's default.
	faultAround = 16
	// leastLook is the least number of bytes copied between two measurements, of 5 us each.
	leastLook = 256 << 10
)

// LimitMapped bounds what pages of mapped files, of all of the process, count as its memory: in bytes, about; 0 is no
// limit.
func LimitMapped(most int64) { mapped.budget.most.Store(most) }

// copied is called behind each copy of n bytes from a mapping. The first caller behind the limit measures and releases
// mappings. A caller that comes when as much again was copied waits for the first one. The caller must hold no mapping's
// lock: copied takes these locks, and a waiting caller must not block the measuring one.
func (p *mappings) copied(n int64) {
	b := &p.budget
	most := b.most.Load()
	if most == 0 {
		return
	}
	left := b.left.Add(-n)
	switch {
	case left >= 0:
	case b.looking.TryLock():
		if b.left.Load() < 0 {
			p.fit(most)
		}
		b.looking.Unlock()
	case left < -most/faultAround:
		b.looking.Lock()
		b.looking.Unlock() //nolint:staticcheck // it waits
	}
}

// fit releases all mappings if more than most counts, or nearly. REQUIRES: looking.
func (p *mappings) fit(most int64) {
	now, known := mappedBytes()
	if left := (most + p.budget.beside - now) / faultAround; known && left > leastLook {
		p.budget.left.Store(left)
		return
	}
	p.budget.left.Store(most / faultAround)
	p.budget.releases.Add(1)
	p.mu.Lock()
	var held []*mapping
	for _, m := range p.ring {
		if m.held.Load() {
			held = append(held, m)
		}
	}
	p.mu.Unlock()
	for len(held) > 0 {
		n := min(len(held), releasesAtOnce)
		releaseAll(held[:n])
		held = held[n:]
	}
}

// releasesAtOnce is how many ranges the kernel takes in one call, UIO_MAXIOV.
const releasesAtOnce = 1024

// allUnloader is an optional interface of a vfs.FS: Unload of many, for one interruption of the other processors.
type allUnloader interface {
	UnloadAll(mapped [][]byte) error
}

// releaseAll releases mappings that nobody is changing now.
func releaseAll(all []*mapping) {
	var fs allUnloader
	var locked, others []*mapping
	var pages [][]byte
	for _, m := range all {
		if !m.mu.TryRLock() {
			continue // it is being mapped or unmapped
		}
		own, ok := m.fs.(allUnloader)
		if fs == nil {
			fs = own
		}
		if !ok || own != fs || m.data == nil {
			m.mu.RUnlock()
			others = append(others, m)
			continue
		}
		m.held.Store(false)
		locked, pages = append(locked, m), append(pages, m.data)
	}
	err := error(nil)
	if len(pages) > 0 {
		err = fs.UnloadAll(pages)
	}
	for _, m := range locked {
		m.mu.RUnlock()
	}
	if err != nil {
		others = append(others, locked...)
	}
	for _, m := range others {
		_ = m.release() // a file closed meanwhile has no pages any more
	}
}
