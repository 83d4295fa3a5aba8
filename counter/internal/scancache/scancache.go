// Package scancache keeps sorted mids of blocks for scans (type Cache). It knows blocks, and nothing of stores.
package scancache

import (
	"slices"
	"sync"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/snapfile"
)

// Cache keeps the sorted mids of the blocks that scans are in: sorting a block for each call would cost
// milliseconds for ten keys.
//
// A copy may be older than the block's last change. It is good for a call of a scan if the block has not changed since
// it was made, or if it was good for an earlier call of the same scan: either way it holds everything that has been
// there throughout. A scan is known by its cursor only, so the copies that a call used, one of each counter, are kept
// by the cursor it returned. Two scans may come to the same cursor; the newer copies are kept then, which are good for
// both: each was made after the other one, and what was there throughout either scan was there when it was made, or the
// block did not change in between.
//
// When an entry falls out, older copies must not take its place under the same cursor: gone remembers how new the
// copies were that fell out, and none that is not newer is kept there again. barred is the same for all cursors that
// gone does not remember any more.
type Cache struct {
	mu     sync.Mutex
	At     map[uint64]Copies // by cursor
	order  []uint64          // keys of at, oldest first
	Made   uint64            // copies made so far
	gone   map[uint64]uint64 // cursor to number, for the cursors of past
	past   []uint64          // oldest first
	barred uint64
}

// Copies are the copies that a call which returned some cursor goes on with.
type Copies map[*block.Keyspace]*Copy

const (
	// maxPositions bounds the cache: the copies of a cursor take 0.5 MB together, or 8 KB a counter.
	maxPositions = 16
	Ahead        = 64 << 10 // mids of all counters
	LeastAhead   = 1 << 10  // mids of one
	// maxGone is how many calls a scan goes on with a copy of a block that changes all the time: 4096 take 0.2 MB.
	maxGone = 4 << 10
)

// Copy is a sorted copy of the mids of a block, or of so many from the first asked for on. It never changes.
type Copy struct {
	block  *block.Block
	edits  uint64 // the block's when it was made
	Logged uint64
	lo, hi uint64 // what it covers
	Mids   []uint64
	Lost   []snapfile.MidRange // whose items cannot be listed, in order
	number uint64              // rises with each copy made
}

// Mids returns sorted mids of ks from cursor on, count of them where there are so many, the end of the range that
// they cover completely, and the copies they came from. A copy is made of ahead mids.
func (c *Cache) Mids(ks *block.Keyspace, cursor uint64, count, ahead int) (mids []uint64, end uint64, used []*Copy) {
	for end = cursor; len(mids) < count && end < hot.EndMid; {
		var s *Copy
		if end == cursor {
			s = c.continued(ks, cursor)
		}
		if s == nil {
			s = c.sorted(ks, end, max(ahead, count))
		}
		used = append(used, s)
		i, _ := slices.BinarySearch(s.Mids, end)
		mids = append(mids, s.Mids[i:min(len(s.Mids), i+count-len(mids))]...)
		if end = s.hi; len(mids) == count {
			end = mids[count-1] + 1
		}
	}
	return mids, end, used
}

// continued returns the copy that a call which returned this cursor used, if it is still here.
func (c *Cache) continued(ks *block.Keyspace, cursor uint64) *Copy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.At[cursor][ks]
}

// sorted returns a copy of the block that holds from, as the block is now: from there on, of ahead mids where there are
// more.
func (c *Cache) sorted(ks *block.Keyspace, from uint64, ahead int) *Copy {
	b := ks.Lock(from)
	edits := b.Edits
	c.mu.Lock()
	for _, copies := range c.At {
		if s := copies[ks]; s != nil && s.block == b && s.edits == edits && s.lo <= from && from < s.hi {
			c.mu.Unlock()
			b.Mu.Unlock()
			return s
		}
	}
	c.Made++
	s := &Copy{block: b, edits: edits, Logged: b.Logged, lo: b.Lo, hi: b.Hi, number: c.Made}
	c.mu.Unlock()
	s.Mids, s.Lost = b.AppendMids(make([]uint64, 0, b.Items()))
	b.Mu.Unlock()
	s.Mids = sortMids(s.Mids)
	s.cut(from, ahead)
	return s
}

// cut takes away what lies before from, and behind so many mids, unless that is little.
func (s *Copy) cut(from uint64, ahead int) {
	i, _ := slices.BinarySearch(s.Mids, from)
	if len(s.Mids)-i <= 2*ahead {
		return
	}
	s.Mids = slices.Clone(s.Mids[i : i+ahead])
	s.lo, s.hi = from, s.Mids[ahead-1]+1
	s.Lost = slices.DeleteFunc(s.Lost, func(r snapfile.MidRange) bool { return r.Hi <= s.lo || r.Lo >= s.hi })
}

// Expect keeps the copies that the scan which got cursor next will go on with: of each counter one of those it used, if
// next lies in them.
func (c *Cache) Expect(next uint64, used map[*block.Keyspace][]*Copy, ahead int) {
	copies := make(Copies, len(used))
	for ks, all := range used {
		if i := slices.IndexFunc(all, func(s *Copy) bool { return s.lo <= next && next < s.hi }); i >= 0 {
			copies[ks] = all[i]
		} else {
			copies[ks] = c.sorted(ks, next, ahead)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.At[next]
	if kept == nil {
		kept = make(Copies, len(copies))
		if c.At == nil {
			c.At = make(map[uint64]Copies)
		}
		c.At[next] = kept
		c.order = append(c.order, next)
	}
	newer := max(c.barred, c.gone[next])
	for ks, s := range copies {
		if old := kept[ks]; old == nil && s.number > newer || old != nil && s.number > old.number {
			kept[ks] = s
		}
	}
	if len(c.order) > maxPositions {
		c.evict()
	}
}

// evict removes the oldest entry. REQUIRES c.Mu held.
func (c *Cache) evict() {
	cursor := c.order[0]
	newest, again := c.gone[cursor]
	if !again {
		c.past = append(c.past, cursor)
	}
	for _, s := range c.At[cursor] {
		newest = max(newest, s.number)
	}
	if c.gone == nil {
		c.gone = make(map[uint64]uint64)
	}
	c.gone[cursor] = newest
	delete(c.At, cursor)
	c.order = slices.Delete(c.order, 0, 1)
	if len(c.past) > maxGone {
		c.barred = max(c.barred, c.gone[c.past[0]])
		delete(c.gone, c.past[0])
		c.past = slices.Delete(c.past, 0, 1)
	}
}
