package coldstore

import "github.com/counterd/counterd/coldstore/page"

// Place is the page of a file that holds a mid if any does. A batch of many lookups is faster in three rounds:
//
//	Locate, Ask   of each: searches the index, asks the disk if the page is nowhere in memory, and the processor for the
//	              directory of a cached one
//	Touch         of each: asks the processor for the cache lines of a cached page that the lookup will read
//	Load          of those that are not cached, where nothing may be waited for in GetAt
//	GetAt         of each
//
// A lookup alone takes 8 cache misses, of which 5 wait for one another; the rounds have those of all lookups under way
// at once.
type Place int32

// NoPlace makes GetAt search.
const NoPlace Place = -1

// Locate returns the place of mid. It takes no lock.
func (f *File) Locate(mid uint64) Place { return Place(f.page(mid)) }

// placed is page with a guess, which it checks.
func (f *File) placed(at Place, mid uint64) int {
	i := int(at)
	if uint(i) < uint(len(f.index)) && f.index[i] <= mid && (i+1 == len(f.index) || mid < f.index[i+1]) {
		return i
	}
	return f.page(mid)
}

// Cached tells whether a read at a place of this file needs nothing but memory, as far as can be known: the page may be
// pushed out of the cache at any time.
func (f *File) Cached(at Place) bool {
	i := int(at)
	return uint(i) >= uint(len(f.cached)) || f.cached[i].Load() != 0
}

// Prefetch starts to bring the page at a place of this file into memory, and does not wait. It asks the disk for a page that
// is neither cached nor believed to be in the kernel's cache (see residency).
func (f *File) Prefetch(at Place) {
	i := int(at)
	if uint(i) >= uint(len(f.cached)) || f.closed.Load() {
		return
	}
	if id := f.cached[i].Load(); id != 0 {
		_, d := f.cache.entries.at(entryID(id))
		d.Prefetch()
		return
	}
	if !f.resident.believed(generation.Load(), i) {
		off, n := f.extent(i)
		f.data.willNeed(f.prefetch, off, int64(n))
	}
}

// Load brings the page at a place of this file into the cache, and waits for the disk. An error is left to the read to
// come. Where the cache holds no page, the kernel's has it then.
func (f *File) Load(at Place) {
	i := int(at)
	if uint(i) >= uint(len(f.cached)) || f.closed.Load() || f.cached[i].Load() != 0 {
		return
	}
	s := f.cache.shard(f.id, i)
	s.mu.Lock()
	id := entryID(0)
	if entryBytes(f.h.pageShift) <= s.limit {
		id = s.allocEntry(f.cache, f.h.pageShift)
	}
	s.mu.Unlock()
	if id == 0 {
		off, n := f.extent(i)
		f.data.populate(off, int64(n))
		return
	}
	b, d := f.cache.entries.at(id)
	d.State, d.Used, d.Loaded = page.DirNew, false, true
	_, n := f.extent(i)
	err := f.readPage(b[:n], i)
	s.mu.Lock()
	if err == nil {
		s.insert(f, i, id)
	} else {
		s.freeEntry(f.cache, id, f.h.pageShift)
	}
	s.mu.Unlock()
}

// Touch prefetches the memory that a lookup of mid at a place of this file is going to read, if it is cached.
func (f *File) Touch(at Place, mid uint64) {
	i := int(at)
	if uint(i) >= uint(len(f.cached)) {
		return
	}
	if id := f.cached[i].Load(); id != 0 {
		b, d := f.cache.entries.at(entryID(id))
		d.Touch(b, mid)
	}
}

// warmBytes is how much of a file Warm reads at a time.
const warmBytes = 128 << 10

// Warm reads the whole file into the kernel's memory and keeps nothing of it, so that reads soon after do not wait for the
// disk. Those reads report the errors.
func (f *File) Warm() {
	if f.broken != nil {
		return
	}
	file, err := f.data.openFile()
	if err != nil {
		return
	}
	defer file.Close()
	buf := make([]byte, warmBytes)
	for off := int64(0); off < f.f.size; off += warmBytes {
		if _, err := file.ReadAt(buf[:min(warmBytes, f.f.size-off)], off); err != nil {
			return
		}
	}
}
