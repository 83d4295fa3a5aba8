package coldstore

import (
	"sync"
	"sync/atomic"
)

// Cache holds copies of pages whose checksum held, encoded as they are in the file: 1900 posts in 4 KiB, and a point
// read needs no more decoding than on a mapping. Beside each lies its parsed directory, some 420 bytes, which is not
// counted. It is shared by all files, bounded in bytes and safe for concurrent use.
//
// A file finds its pages by File.cached; shards by page hold the locks and the CLOCK. A reader decodes its row under
// the shard's lock (50 to 150 ns), so a page that is evicted has no reader left and its buffer serves the next one:
// steady state allocates nothing. Disk is never waited for under a lock. Scans (Iterate, Verify) pass the cache by.
type Cache struct {
	shards []cacheShard  // a power of two of them
	files  atomic.Uint32 // files opened so far; the number of a file is in its keys
	reads  atomic.Uint64 // pages taken from files
}

type cacheShard struct {
	mu    sync.Mutex
	ring  []*cachedPage // what CLOCK goes round; nil: free
	free  []int32       // places in ring without a page
	hand  int           // next place CLOCK looks at
	pages int           // in ring
	used  int64         // bytes of their buffers
	limit int64
	spare [maxPageShift - minPageShift + 1][]*cachedPage // by size; at most spareBufs each

	hits, misses, evictions uint64

	_ [64]byte // keeps the locks of two shards on different cache lines
}

// cachedPage is a page in the cache, or room for one. All fields are guarded by the lock of the page's shard while it
// is in the cache, and belong to the goroutine that took it otherwise.
type cachedPage struct {
	view  pageView // of buf
	used  bool     // read since the hand last passed
	place int32    // in ring
	page  int32
	file  *File // whose page it is
	buf   pageBuf
}

// pageBuf is room for a page: exactly a size class of Go, so 4096 bytes take 4096.
type pageBuf struct {
	b     []byte
	end   int // length of the page
	shift int // log2 of the room
}

const (
	spareBufs      = 4
	maxCacheShards = 32
	minShardBytes  = 4 << maxPageShift // a shard holds at least four of the largest pages
)

// CacheStats are sums over all shards since the cache was made, but for Bytes and Pages, which are now.
type CacheStats struct {
	Hits      uint64 // point reads that found their page in the cache
	Misses    uint64 // point reads that did not
	PageReads uint64 // pages taken from files: misses, scans and verification
	Evictions uint64
	Bytes     int64 // memory of the pages held, at most Limit
	Limit     int64
	Pages     int
}

// NewCache makes a cache of at most limit bytes of pages; 0 caches nothing. Up to 4 spare buffers a shard come on
// top.
func NewCache(limit int64) *Cache {
	n := 1
	for n < maxCacheShards && limit/int64(2*n) >= minShardBytes {
		n *= 2
	}
	c := &Cache{shards: make([]cacheShard, n)}
	for i := range c.shards {
		c.shards[i].limit = limit / int64(n)
	}
	return c
}

// SetLimit changes the limit; pages above it are dropped at once.
func (c *Cache) SetLimit(limit int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.limit = limit / int64(len(c.shards))
		s.evict(0)
		s.spare = [len(s.spare)][]*cachedPage{}
		s.mu.Unlock()
	}
}

// Stats returns the figures of the cache.
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

// take returns room for a page of 1<<shift bytes. The caller holds s.mu.
func (s *cacheShard) take(shift int) *cachedPage {
	list := &s.spare[shift-minPageShift]
	if n := len(*list); n > 0 {
		p := (*list)[n-1]
		*list = (*list)[:n-1]
		return p
	}
	return &cachedPage{buf: newPageBuf(shift)}
}

func newPageBuf(shift int) pageBuf {
	return pageBuf{b: make([]byte, 1<<shift), shift: shift}
}

// give takes room back. The caller holds s.mu.
func (s *cacheShard) give(p *cachedPage) {
	p.file = nil
	if list := &s.spare[p.buf.shift-minPageShift]; len(*list) < spareBufs {
		*list = append(*list, p)
	}
}

// insert makes p the cached page i of f, or gives it back when another reader was faster or it does not fit. The caller
// holds s.mu.
func (s *cacheShard) insert(f *File, i int, p *cachedPage) {
	size := int64(len(p.buf.b))
	if f.cached[i].Load() != nil || size > s.limit || f.closed.Load() {
		s.give(p)
		return
	}
	s.evict(size)
	if len(s.free) == 0 {
		s.free = append(s.free, int32(len(s.ring)))
		s.ring = append(s.ring, nil)
	}
	p.place = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	p.file, p.page, p.used = f, int32(i), false
	s.ring[p.place] = p
	f.cached[i].Store(p)
	s.pages++
	s.used += size
}

// evict makes room for size bytes. The caller holds s.mu.
func (s *cacheShard) evict(size int64) {
	for s.used+size > s.limit && s.used > 0 {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		p := s.ring[s.hand]
		switch {
		case p == nil:
		case p.used:
			p.used = false
		default:
			s.drop(p)
			s.evictions++
		}
		s.hand++
	}
}

// drop takes p out of the cache. The caller holds s.mu.
func (s *cacheShard) drop(p *cachedPage) {
	p.file.cached[p.page].Store(nil)
	s.ring[p.place] = nil
	s.free = append(s.free, p.place)
	s.pages--
	s.used -= int64(len(p.buf.b))
	s.give(p)
}

// remove drops all pages of a file that is being closed.
func (c *Cache) remove(f *File) {
	for i := range f.cached {
		s := c.shard(f.id, i)
		s.mu.Lock()
		if p := f.cached[i].Load(); p != nil {
			s.drop(p)
		}
		s.mu.Unlock()
	}
}
