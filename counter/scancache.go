package counter

import (
	"slices"
	"sync"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
)

// scanCache keeps the sorted mids of the blocks that scans are in: sorting a block for each call would cost
// milliseconds for ten keys.
//
// A copy may be older than the block's last change. It is good for a call of a scan if the block has not changed since it
// was made, or if it was good for an earlier call of the same scan: either way it holds everything that has been there
// throughout. A scan is known by its cursor only, so the copies that a call used are kept by the cursor it returned.
// Two scans may come to the same cursor; the newer copy is kept then, which is good for both: it was made after the other
// one, and what was there throughout either scan was there when it was made, or the block did not change in between.
//
// When an entry falls out, an older copy must not take its place under the same cursor: barred remembers how new the copies were
// that fell out, and none that is not newer is kept again.
type scanCache struct {
	mu     sync.Mutex
	at     map[scanPosition]*sortedBlock
	order  []scanPosition // keys of at, oldest first
	made   uint64         // copies made so far
	barred uint64
}

type scanPosition struct {
	ks     *keyspace
	cursor uint64
}

// maxScanPositions bounds the cache: a copy takes 8 bytes an item of one block, 0.5 MB.
const maxScanPositions = 16

// sortedBlock is a sorted copy of the mids of a block. It never changes.
type sortedBlock struct {
	block  *block
	edits  uint64 // the block's when it was made
	logged uint64
	lo, hi uint64
	mids   []uint64
	lost   []persist.MidRange // whose items cannot be listed, in order
	number uint64             // rises with each copy made
}

// mids returns sorted mids of ks from cursor on, count of them where there are so many, the end of the range that
// they cover completely, and the copies they came from.
func (c *scanCache) mids(ks *keyspace, cursor uint64, count int) (mids []uint64, end uint64, used []*sortedBlock) {
	for end = cursor; len(mids) < count && end < hot.EndMid; {
		var s *sortedBlock
		if end == cursor {
			s = c.continued(ks, cursor)
		}
		if s == nil {
			s = c.sorted(ks, end)
		}
		used = append(used, s)
		i, _ := slices.BinarySearch(s.mids, end)
		mids = append(mids, s.mids[i:min(len(s.mids), i+count-len(mids))]...)
		if end = s.hi; len(mids) == count {
			end = mids[count-1] + 1
		}
	}
	return mids, end, used
}

// continued returns the copy that a call which returned this cursor used, if it is still here.
func (c *scanCache) continued(ks *keyspace, cursor uint64) *sortedBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[scanPosition{ks, cursor}]
}

// sorted returns a copy of the block that holds from, as the block is now.
func (c *scanCache) sorted(ks *keyspace, from uint64) *sortedBlock {
	b := ks.lockFor(ks.dir.Load().find(from), from)
	edits := b.edits
	c.mu.Lock()
	for _, s := range c.at {
		if s.block == b && s.edits == edits {
			c.mu.Unlock()
			b.mu.Unlock()
			return s
		}
	}
	c.made++
	s := &sortedBlock{block: b, edits: edits, logged: b.logged, lo: b.lo, hi: b.hi, number: c.made}
	c.mu.Unlock()
	s.mids, s.lost = b.appendMids(make([]uint64, 0, b.items()))
	b.mu.Unlock()
	slices.Sort(s.mids)
	return s
}

// expect keeps the copy that the scan which got cursor next will go on with: one of those it used, if next lies in them.
func (c *scanCache) expect(ks *keyspace, next uint64, used []*sortedBlock) {
	i := slices.IndexFunc(used, func(s *sortedBlock) bool { return s.lo <= next && next < s.hi })
	var s *sortedBlock
	if i >= 0 {
		s = used[i]
	} else {
		s = c.sorted(ks, next)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := scanPosition{ks, next}
	old := c.at[p]
	switch {
	case old == nil && s.number <= c.barred:
		return
	case old == nil:
		if c.at == nil {
			c.at = make(map[scanPosition]*sortedBlock)
		}
		c.order = append(c.order, p)
	case old.number >= s.number:
		return
	}
	c.at[p] = s
	if len(c.order) > maxScanPositions {
		c.barred = max(c.barred, c.at[c.order[0]].number)
		delete(c.at, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
}
