package coldstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// slotID names room for a page in memory: its chunk and its place there. 0 is none.
type slotID uint32

// slots gives out room for pages, in chunks of 2 MiB outside of Go's heap: gigabytes of pages neither cost the collector
// anything nor let garbage of the same size gather, and huge pages serve them.
//
//	+--------+--------+- ... -+--------+-------+-------+- ... -+
//	| page 0 | page 1 |  ...  | page n | dir 0 | dir 1 |  ...  |   all pages of a chunk have the same room
//	+--------+--------+- ... -+--------+-------+-------+- ... -+
//
// A chunk is never unmapped while the cache is in use, so who has an old slotID may look at its memory, and finds
// anything. What a lower limit frees goes back to the kernel by page.
type slots struct {
	refs atomic.Pointer[[]chunk] // all chunks; replaced under mu
	mem  *chunkMemory
	huge atomic.Bool // chunks are to be of huge pages

	mu    sync.Mutex
	free  [maxPageShift - minPageShift + 1][]slotID // by log2 of the room
	clean [maxPageShift - minPageShift + 1][]slotID // free too, and without memory
	small int                                       // chunks before this one are not to be of huge pages any more
}

// chunk is where one is and whose its pages are.
type chunk struct {
	base  unsafe.Pointer
	dirs  uintptr // offset of the first dir
	shift uint8   // log2 of a page's room
	owner []slotOwner
}

// slotOwner is whose page is in a slot, guarded by the lock of the page's shard.
type slotOwner struct {
	file  *File
	page  int32
	place int32 // in the shard's ring
}

// chunkMemory is what a cache holds of the kernel's, apart from it so that it can be freed when the cache is garbage.
type chunkMemory struct{ all [][]byte }

const (
	chunkBytes = 2 << 20
	slotBits   = 9 // of a slotID are the place: 448 pages of 4 KiB in a chunk
	dirBytes   = unsafe.Sizeof(pageDir{})
	// hugeLimit: a smaller cache takes memory as it needs it.
	hugeLimit = 64 << 20
	// releaseSlots is how many are given back under one lock.
	releaseSlots = 64
)

// slotBytes is what a page with room of 1<<shift bytes takes.
func slotBytes(shift int) int64 { return 1<<shift + int64(dirBytes) }

func (s *slots) init(c *Cache) {
	s.refs.Store(new([]chunk))
	s.mem = &chunkMemory{}
	runtime.AddCleanup(c, func(m *chunkMemory) {
		for _, b := range m.all {
			freeChunk(b)
		}
	}, s.mem)
}

// take returns a free slot with room for 1<<shift bytes; 0 if the kernel gives no memory.
func (s *slots) take(shift int) slotID {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &s.free[shift-minPageShift]
	if len(*list) == 0 && len(s.clean[shift-minPageShift]) > 0 {
		list = &s.clean[shift-minPageShift]
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

// give takes a slot back.
func (s *slots) give(id slotID) {
	s.mu.Lock()
	list := &s.free[s.chunk(id).shift-minPageShift]
	*list = append(*list, id)
	s.mu.Unlock()
}

// grow makes a chunk. REQUIRES: mu.
func (s *slots) grow(shift int) {
	mem := newChunk(s.huge.Load())
	if mem == nil {
		return
	}
	s.mem.all = append(s.mem.all, mem)
	n := chunkBytes / int(slotBytes(shift))
	refs := *s.refs.Load()
	c := chunk{base: unsafe.Pointer(&mem[0]), dirs: uintptr(n) << shift, shift: uint8(shift), owner: make([]slotOwner, n)}
	for k := n - 1; k >= 0; k-- {
		s.free[shift-minPageShift] = append(s.free[shift-minPageShift], slotID(len(refs)<<slotBits|k)+1)
	}
	refs = append(refs[:len(refs):len(refs)], c)
	s.refs.Store(&refs)
}

// release gives the memory of free slots back to the kernel, some at a time: takers wait for 50 us. Their chunks are of
// small pages then, or the kernel would make the huge ones whole again.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.small < len(s.mem.all); s.small++ {
		adviseSmall(s.mem.all[s.small])
	}
	for k := range s.free {
		for len(s.free[k]) > 0 {
			n := max(len(s.free[k])-releaseSlots, 0)
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

func (s *slots) chunk(id slotID) *chunk { return &(*s.refs.Load())[(id-1)>>slotBits] }

// at returns the room of a slot, and its dir.
func (s *slots) at(id slotID) (page []byte, d *pageDir) {
	c := s.chunk(id)
	k := uintptr(id-1) & (1<<slotBits - 1)
	page = unsafe.Slice((*byte)(unsafe.Add(c.base, k<<c.shift)), 1<<c.shift)
	return page, (*pageDir)(unsafe.Add(c.base, c.dirs+k*dirBytes))
}

// owner returns whose page is in a slot.
func (s *slots) owner(id slotID) *slotOwner {
	return &s.chunk(id).owner[(id-1)&(1<<slotBits-1)]
}
