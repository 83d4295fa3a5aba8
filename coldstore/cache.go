package coldstore

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/coldstore/page"
)

// Cache holds copies of pages whose checksum held, encoded as they are in the file: 1900 posts in 4 KiB, and a point
// read needs no more decoding than on a mapping. Beside each lies its directory (page/dir.go), 576 bytes: 2.5 bytes a post
// in all, where a hot block takes 5.4. It is shared by all files, bounded in bytes and safe for concurrent use.
//
// A file finds its pages by File.cached; shards by page hold the locks and the CLOCK. A reader decodes its row under
// the shard's lock (50 to 150 ns), so a page that is evicted has no reader left and its entry serves the next one:
// steady state allocates nothing. Disk is never waited for under a lock. Scans (Iterate, Verify) pass the cache by.
type Cache struct {
	entries entries
	shards  []cacheShard  // a power of two of them
	files   atomic.Uint32 // files opened so far; the number of a file is in its keys
	reads   atomic.Uint64 // pages taken from files
	damaged atomic.Uint64 // files that were found damaged
}

type cacheShard struct {
	mu    sync.Mutex
	ring  []entryID // the entries that CLOCK goes round; 0: free
	free  []int32   // places in ring without a page
	hand  int       // next place CLOCK looks at
	pages int       // in ring
	used  int64     // bytes of their entries
	limit int64
	spare [page.MaxShift - page.MinShift + 1][]entryID // by size; at most spareEntries each

	hits, misses, evictions uint64

	_ [64]byte // keeps the locks of two shards on different cache lines
}

// pageBuf is room for a page of a scan: exactly a size class of Go, so 4096 bytes take 4096.
type pageBuf struct {
	b     []byte
	end   int // length of the page
	shift int // log2 of the room
}

const (
	spareEntries   = 4
	maxCacheShards = 32
	minShardBytes  = 4 << page.MaxShift // a shard holds at least four of the largest pages
)

// CacheStats are sums over all shards since the cache was made, but for Bytes and Pages, which are now.
type CacheStats struct {
	Hits      uint64 // point reads that found their page in the cache
	Misses    uint64 // point reads that did not
	PageReads uint64 // pages taken from files: misses, scans and verification
	Evictions uint64
	Bytes     int64 // memory of the pages held and their directories, at most Limit
	Limit     int64
	Pages     int
}

// NewCache makes a cache of at most limit bytes of pages; 0 caches nothing. Up to 4 spare entries a shard come on top.
func NewCache(limit int64) *Cache {
	n := 1
	for n < maxCacheShards && limit/int64(2*n) >= minShardBytes {
		n *= 2
	}
	c := &Cache{shards: make([]cacheShard, n)}
	c.entries.init(c)
	c.entries.huge.Store(limit >= hugeLimit)
	for i := range c.shards {
		c.shards[i].limit = limit / int64(n)
	}
	return c
}

// SetLimit changes the limit; pages above it are dropped at once, and their memory goes back to the kernel.
func (c *Cache) SetLimit(limit int64) {
	c.entries.huge.Store(limit >= hugeLimit)
	dropped := uint64(0)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		before := s.evictions
		s.limit = limit / int64(len(c.shards))
		s.evict(c, 0)
		dropped += s.evictions - before
		s.mu.Unlock()
	}
	if dropped > 0 {
		c.entries.release()
	}
}

// Damages is how many files with this cache were found damaged since the cache was made. It is one atomic load.
func (c *Cache) Damages() uint64 { return c.damaged.Load() }

// Stats returns the metrics of the cache.
func (c *Cache) Stats() CacheStats {
	st := CacheStats{PageReads: c.reads.Load()}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Hits += s.hits
		st.Misses += s.misses
		st.Evictions += s.evictions
		st.Bytes += s.used
		st.Limit += s.limit
		st.Pages += s.pages
		s.mu.Unlock()
	}
	return st
}

// shard spreads the pages of a file evenly: neighbours go to different shards.
func (c *Cache) shard(file uint32, page int) *cacheShard {
	key := uint64(file)<<32 | uint64(uint32(page))
	return &c.shards[key*0x9e3779b97f4a7c15>>59&uint64(len(c.shards)-1)] // 59: the upper bits, maxCacheShards of them
}

// take returns room for a page of 1<<shift bytes; 0 if there is no memory. The caller holds s.mu.
func (s *cacheShard) allocEntry(c *Cache, shift int) entryID {
	list := &s.spare[shift-page.MinShift]
	if n := len(*list); n > 0 {
		id := (*list)[n-1]
		*list = (*list)[:n-1]
		return id
	}
	return c.entries.alloc(shift)
}

func newPageBuf(shift int) pageBuf {
	return pageBuf{b: make([]byte, 1<<shift), shift: shift}
}

// give takes room back. The caller holds s.mu.
func (s *cacheShard) freeEntry(c *Cache, id entryID, shift int) {
	if list := &s.spare[shift-page.MinShift]; len(*list) < spareEntries {
		*list = append(*list, id)
	} else {
		c.entries.freeEntry(id)
	}
}

// insert makes the content of an entry the cached page i of f. It gives the entry back if another reader was faster or the
// page does not fit. The caller holds s.mu.
func (s *cacheShard) insert(f *File, i int, id entryID) {
	c := f.cache
	size := entryBytes(f.h.pageShift)
	if f.cached[i].Load() != 0 || size > s.limit || f.closed.Load() {
		s.freeEntry(c, id, f.h.pageShift)
		return
	}
	s.evict(c, size)
	if len(s.free) == 0 {
		s.free = append(s.free, int32(len(s.ring)))
		s.ring = append(s.ring, 0)
	}
	place := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	*c.entries.owner(id) = entryOwner{file: f, page: int32(i), place: place}
	s.ring[place] = id
	f.cached[i].Store(uint32(id))
	s.pages++
	s.used += size
}

// evict makes room for size bytes. The caller holds s.mu.
func (s *cacheShard) evict(c *Cache, size int64) {
	for s.used+size > s.limit && s.used > 0 {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		if id := s.ring[s.hand]; id != 0 {
			if _, d := c.entries.at(id); d.Used {
				d.Used = false
			} else {
				s.drop(c, id)
				s.evictions++
			}
		}
		s.hand++
	}
}

// drop takes a page out of the cache. The caller holds s.mu.
func (s *cacheShard) drop(c *Cache, id entryID) {
	o := c.entries.owner(id)
	f := o.file
	f.cached[o.page].Store(0)
	s.ring[o.place] = 0
	s.free = append(s.free, o.place)
	s.pages--
	s.used -= entryBytes(f.h.pageShift)
	o.file = nil
	s.freeEntry(c, id, f.h.pageShift)
}

// remove drops all pages of a file that is being closed.
func (c *Cache) remove(f *File) {
	for i := range f.cached {
		if f.cached[i].Load() == 0 { // a page being read is not put in, as the file is closed
			continue
		}
		s := c.shard(f.id, i)
		s.mu.Lock()
		if id := f.cached[i].Load(); id != 0 {
			s.drop(c, entryID(id))
		}
		s.mu.Unlock()
	}
}
