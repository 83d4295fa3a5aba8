package coldstore

import (
	"sync"
	"sync/atomic"
)

// Cache holds copies of pages whose checksum held, encoded as they are in the file: 1900 posts in 4 KiB, and a
// point read needs no more decoding than on a mapping. It is shared by all files, bounded in bytes and safe for
// concurrent use.
//
// Sharded by page, CLOCK inside a shard. A reader decodes its row under the shard's lock (100 to 200 ns), so a page
// that is evicted has no reader left and its buffer serves the next one: steady state allocates nothing. Disk is
// never waited for under a lock. Scans (Iterate, Verify) pass the cache by.
type Cache struct {
	shards []cacheShard  // a power of two of them
	files  atomic.Uint32 // files opened so far; the number of a file is in its keys
	reads  atomic.Uint64 // pages taken from files
}

type cacheShard struct {
	mu    sync.Mutex
	slot  map[uint64]int32 // page key -> slot
	slots []cacheSlot
	free  []int32 // slots without a page
	hand  int     // next slot CLOCK looks at
	used  int64   // bytes of the buffers in slots
	limit int64
	spare [maxPageShift - minPageShift + 1][]pageBuf // by size; at most spareBufs each

	hits, misses, evictions uint64

	_ [64]byte // keeps the locks of two shards on different cache lines
}

type cacheSlot struct {
	key  uint64
	page pageBuf // page.b is nil in a free slot
	used bool    // read since the hand last passed
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
		c.shards[i].slot = make(map[uint64]int32)
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
		s.spare = [len(s.spare)][]pageBuf{}
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
		st.Pages += len(s.slot)
		s.mu.Unlock()
	}
	return st
}

func pageKey(file uint32, page int) uint64 { return uint64(file)<<32 | uint64(uint32(page)) }

// shard spreads the pages of a file evenly: neighbours go to different shards.
func (c *Cache) shard(key uint64) *cacheShard {
	return &c.shards[key*0x9e3779b97f4a7c15>>59&uint64(len(c.shards)-1)] // 59: the upper bits, maxCacheShards of them
}

// get returns the page, or nil. The caller holds s.mu, and uses the result under it only.
func (s *cacheShard) get(key uint64) *pageBuf {
	i, ok := s.slot[key]
	if !ok {
		return nil
	}
	e := &s.slots[i]
	if !e.used { // a write only when needed: it would move the cache line from core to core
		e.used = true
	}
	return &e.page
}

// take returns a buffer for a page of 1<<shift bytes. The caller holds s.mu.
func (s *cacheShard) take(shift int) pageBuf {
	list := &s.spare[shift-minPageShift]
	if n := len(*list); n > 0 {
		p := (*list)[n-1]
		*list = (*list)[:n-1]
		return p
	}
	return newPageBuf(shift)
}

func newPageBuf(shift int) pageBuf {
	return pageBuf{b: make([]byte, 1<<shift), shift: shift}
}

// give takes a buffer back. The caller holds s.mu.
func (s *cacheShard) give(p pageBuf) {
	if list := &s.spare[p.shift-minPageShift]; len(*list) < spareBufs {
		*list = append(*list, p)
	}
}

// insert makes p the page of key, or gives it back when another reader was faster or it does not fit. The caller
// holds s.mu.
func (s *cacheShard) insert(key uint64, p pageBuf) {
	size := int64(len(p.b))
	if _, ok := s.slot[key]; ok || size > s.limit {
		s.give(p)
		return
	}
	s.evict(size)
	if len(s.free) == 0 {
		s.free = append(s.free, int32(len(s.slots)))
		s.slots = append(s.slots, cacheSlot{})
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.slots[i] = cacheSlot{key: key, page: p}
	s.slot[key] = i
	s.used += size
}

// evict makes room for size bytes. The caller holds s.mu.
func (s *cacheShard) evict(size int64) {
	for s.used+size > s.limit && s.used > 0 {
		if s.hand >= len(s.slots) {
			s.hand = 0
		}
		e := &s.slots[s.hand]
		switch {
		case e.page.b == nil:
		case e.used:
			e.used = false
		default:
			s.drop(s.hand)
			s.evictions++
		}
		s.hand++
	}
}

// drop frees slot i. The caller holds s.mu.
func (s *cacheShard) drop(i int) {
	e := &s.slots[i]
	delete(s.slot, e.key)
	s.used -= int64(len(e.page.b))
	s.give(e.page)
	*e = cacheSlot{}
	s.free = append(s.free, int32(i))
}

// remove drops the pages 0..pages-1 of a file that is being closed.
func (c *Cache) remove(file uint32, pages int) {
	for i := range pages {
		key := pageKey(file, i)
		s := c.shard(key)
		s.mu.Lock()
		if n, ok := s.slot[key]; ok {
			s.drop(int(n))
		}
		s.mu.Unlock()
	}
}
