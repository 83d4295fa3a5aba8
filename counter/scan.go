package counter

import (
	"slices"
	"sync"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// ScanItem is an item met by Scan.
type ScanItem struct {
	Counter *schema.Counter
	Mid     uint64
}

// Scan appends about count items with mids from cursor on, in the order of their mids and, for equal mids, of the
// counters in the schema. It returns the cursor to go on with, 0 when there is no more; 0 starts as well.
//
// An item that is there from the first call to the last is returned exactly once; one that comes or goes meanwhile may
// be. The cursor is the next mid to look at, so it stays good for ever and any number of scans run side by side.
// REQUIRES the batch to be open.
func (b *Batch) Scan(dst []ScanItem, cursor uint64, count int) ([]ScanItem, uint64) {
	if cursor >= hot.EndMid {
		return dst, 0
	}
	count = max(1, count)
	type part struct {
		def  *schema.Counter
		ks   *keyspace
		mids []uint64
	}
	var parts []part
	upto := hot.EndMid // all mids below are in parts
	for _, def := range b.Schema().Counters() {
		ks := b.s.spaces[def.ID]
		mids, end := b.s.scans.mids(ks, cursor, count)
		parts = append(parts, part{def, ks, mids})
		upto = min(upto, end)
	}
	next := uint64(0)
	for taken := 0; ; taken++ {
		first := upto
		for i := range parts {
			if m := parts[i].mids; len(m) > 0 {
				first = min(first, m[0])
			}
		}
		if first == upto || taken >= count {
			if next = first; next == hot.EndMid {
				next = 0
			}
			break
		}
		for i := range parts {
			p := &parts[i]
			if len(p.mids) == 0 || p.mids[0] != first {
				continue
			}
			p.mids = p.mids[1:]
			if p.ks.has(first) {
				dst = append(dst, ScanItem{p.def, first})
			}
		}
	}
	for i := range parts {
		b.s.scans.expect(parts[i].ks, next)
	}
	return dst, next
}

// has tells whether an item exists.
func (ks *keyspace) has(mid uint64) bool {
	b := ks.lockFor(ks.dir.Load().find(mid), mid)
	_, found := b.tab.Find(mid)
	b.mu.Unlock()
	return found
}

// scanCache keeps the sorted mids of the blocks that scans are in: sorting a block for each call would cost a
// millisecond for ten keys.
//
// A sorted copy may be older than the block's last change. It is good for a call if the block did not change since,
// or if the call goes on where the last call that used the copy ended: then the copy was made during that scan, so it holds all
// that was there throughout.
type scanCache struct {
	mu     sync.Mutex
	copies []*sortedBlock // most recently used first
}

// maxScanCopies bounds the cache to some MB, a copy being 8 bytes an item of one block.
const maxScanCopies = 8

type sortedBlock struct {
	ks     *keyspace
	block  *block
	edits  uint64
	lo, hi uint64
	mids   []uint64 // sorted; never changed
	next   uint64   // where the last call that used it ended; guarded by scanCache.mu
}

// mids returns sorted mids of ks from cursor on, at least count of them where there are so many, and the end of the range
// that they cover completely.
func (c *scanCache) mids(ks *keyspace, cursor uint64, count int) (mids []uint64, end uint64) {
	for end = cursor; len(mids) < count && end < hot.EndMid; {
		s := c.sorted(ks, end)
		i, _ := slices.BinarySearch(s.mids, end)
		mids = append(mids, s.mids[i:min(len(s.mids), i+count-len(mids))]...)
		if end = s.hi; len(mids) == count {
			end = mids[count-1] + 1
		}
	}
	return mids, end
}

// sorted returns a good copy of the block that holds from.
func (c *scanCache) sorted(ks *keyspace, from uint64) *sortedBlock {
	b := ks.lockFor(ks.dir.Load().find(from), from)
	edits := b.edits
	c.mu.Lock()
	for i, s := range c.copies {
		if s.ks == ks && (s.next == from && s.lo <= from && from < s.hi || s.block == b && s.edits == edits) {
			copy(c.copies[1:i+1], c.copies[:i])
			c.copies[0] = s
			c.mu.Unlock()
			b.mu.Unlock()
			return s
		}
	}
	c.mu.Unlock()
	s := &sortedBlock{ks: ks, block: b, edits: edits, lo: b.tab.Lo(), hi: b.tab.Hi()}
	s.mids = b.tab.AppendMids(make([]uint64, 0, b.tab.Len()), 0)
	b.mu.Unlock()
	slices.Sort(s.mids)
	c.mu.Lock()
	c.copies = slices.Insert(c.copies, 0, s)
	if len(c.copies) > maxScanCopies {
		clear(c.copies[maxScanCopies:])
		c.copies = c.copies[:maxScanCopies]
	}
	c.mu.Unlock()
	return s
}

// expect notes where the scan that just used ks's newest copy around next will go on.
func (c *scanCache) expect(ks *keyspace, next uint64) {
	if next == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.copies {
		if s.ks == ks && s.lo <= next && next < s.hi {
			s.next = next
			return
		}
	}
}
