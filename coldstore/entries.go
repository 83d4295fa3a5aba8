package coldstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/counterd/counterd/coldstore/page"
)

// entryID names room for a page in memory: its chunk and its place there. 0 is none.
type entryID uint32

// entries gives out room for pages, in chunks of 2 MiB outside of Go's heap: gigabytes of pages neither cost the collector
// anything nor let garbage of the same size gather, and huge pages serve them.
//
//	+--------+--------+- ... -+--------+-------+-------+- ... -+
//	| page 0 | page 1 |  ...  | page n | dir 0 | dir 1 |  ...  |   all pages of a chunk have the same room
//	+--------+--------+- ... -+--------+-------+-------+- ... -+
//
// A chunk is never unmapped while the cache is in use, so a reader with an old entryID may read its memory, and finds arbitrary
// bytes. Memory that a lower limit frees goes back to the kernel by page.
type entries struct {
	refs atomic.Pointer[[]chunk] // all chunks; replaced under mu
	mem  *chunkMemory
	huge atomic.Bool // chunks are to be of huge pages

	mu    sync.Mutex
	free  [page.MaxShift - page.MinShift + 1][]entryID // by log2 of the room
	clean [page.MaxShift - page.MinShift + 1][]entryID // free too, and without memory
	small int                                          // chunks before this one are not to be of huge pages any more
}

// chunk is where one is and whose its pages are.
type chunk struct {
	base  unsafe.Pointer
	dirs  uintptr // offset of the first dir
	shift uint8   // log2 of a page's room
	owner []entryOwner
}

// entryOwner is whose page is in an entry, guarded by the lock of the page's shard.
type entryOwner struct {
	file  *File
	page  int32
	place int32 // in the shard's ring
}

// chunkMemory is the memory that a cache has from the kernel. It is a separate object, so that it can be freed when the
// cache is garbage.
type chunkMemory struct{ all [][]byte }

const (
	chunkBytes = 2 << 20
	entryBits  = 9 // of an entryID are the place: 448 pages of 4 KiB in a chunk
	dirBytes   = unsafe.Sizeof(page.Dir{})
	// hugeLimit: a smaller cache takes memory as it needs it.
	hugeLimit = 64 << 20
	// releaseEntries is how many are given back under one lock.
	releaseEntries = 64
)

// entryBytes is the memory of a page with room of 1<<shift bytes.
func entryBytes(shift int) int64 { return 1<<shift + int64(dirBytes) }

func (s *entries) init(c *Cache) {
	s.refs.Store(new([]chunk))
	s.mem = &chunkMemory{}
	runtime.AddCleanup(c, func(m *chunkMemory) {
		for _, b := range m.all {
			freeChunk(b)
		}
	}, s.mem)
}

// take returns a free entry with room for 1<<shift bytes; 0 if the kernel gives no memory.
func (s *entries) alloc(shift int) entryID {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &s.free[shift-page.MinShift]
	if len(*list) == 0 && len(s.clean[shift-page.MinShift]) > 0 {
		list = &s.clean[shift-page.MinShift]
	}
	if len(*list) == 0 {
		s.grow(shift)
	}
	n := len(*list)
	if n == 0 {
		return 0
	}
	id := (*list)[n-1]
	*list = (*list)[:n-1]
	return id
}

// give takes an entry back.
func (s *entries) freeEntry(id entryID) {
	s.mu.Lock()
	list := &s.free[s.chunk(id).shift-page.MinShift]
	*list = append(*list, id)
	s.mu.Unlock()
}

// grow makes a chunk. REQUIRES: mu.
func (s *entries) grow(shift int) {
	mem := newChunk(s.huge.Load())
	if mem == nil {
		return
	}
	s.mem.all = append(s.mem.all, mem)
	n := chunkBytes / int(entryBytes(shift))
	refs := *s.refs.Load()
	c := chunk{base: unsafe.Pointer(&mem[0]), dirs: uintptr(n) << shift, shift: uint8(shift), owner: make([]entryOwner, n)}
	for k := n - 1; k >= 0; k-- {
		s.free[shift-page.MinShift] = append(s.free[shift-page.MinShift], entryID(len(refs)<<entryBits|k)+1)
	}
	refs = append(refs[:len(refs):len(refs)], c)
	s.refs.Store(&refs)
}

// release gives the memory of free entries back to the kernel, some at a time: takers wait for 50 us. Their chunks are of
// small pages then, or the kernel would make the huge ones whole again.
func (s *entries) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.small < len(s.mem.all); s.small++ {
		adviseSmall(s.mem.all[s.small])
	}
	for k := range s.free {
		for len(s.free[k]) > 0 {
			n := max(len(s.free[k])-releaseEntries, 0)
			some := s.free[k][n:]
			for _, id := range some {
				b, _ := s.at(id)
				releasePages(b)
			}
			s.clean[k], s.free[k] = append(s.clean[k], some...), s.free[k][:n]
			s.mu.Unlock()
			s.mu.Lock()
		}
	}
}

func (s *entries) chunk(id entryID) *chunk { return &(*s.refs.Load())[(id-1)>>entryBits] }

// at returns the room of an entry, and its dir.
func (s *entries) at(id entryID) (raw []byte, d *page.Dir) {
	c := s.chunk(id)
	k := uintptr(id-1) & (1<<entryBits - 1)
	raw = unsafe.Slice((*byte)(unsafe.Add(c.base, k<<c.shift)), 1<<c.shift)
	return raw, (*page.Dir)(unsafe.Add(c.base, c.dirs+k*dirBytes))
}

// owner returns whose page is in a slot.
func (s *entries) owner(id entryID) *entryOwner {
	return &s.chunk(id).owner[(id-1)&(1<<entryBits-1)]
}
