package tier

import (
	"strings"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
)

// Usage is the memory and disk space of one counter's posts, by tier, or of a derived column of it.
type Usage struct {
	Counter                    string
	Column                     string // the derived column that the items are counts of; empty: they are the counter's posts
	HotItems, ColdItems        int64
	HotBlocks, ColdBlocks      int64
	HotBytes                   int64 // memory of hot blocks
	ColdBytes, IndexBytes      int64 // of cold files; memory of their indexes
	OverlayBlocks              int64 // cold blocks with changes that their files do not have
	OverlayItems, OverlayBytes int64 // rows of those changes, and their memory
	Overflows                  int64 // values in overflow tables
	Unusable                   int64 // cold blocks whose file is missing or cannot be used
}

// UsageStep is how many blocks are counted with the gate held: 0.1 ms. Somebody who waits for it alone keeps everybody
// out.
const UsageStep = 1024

// add counts the block that lo is in, and returns where the next begins. REQUIRES Data.Gate held.
func (u *Usage) add(ks *block.Keyspace, lo uint64) (next uint64) {
	b := ks.Lock(lo)
	defer b.Mu.Unlock()
	if b.Cold == nil {
		u.HotBlocks++
		u.HotItems += int64(b.Tab.Len())
		u.HotBytes += int64(b.Tab.Bytes())
	} else {
		f := b.Cold.File.Stat()
		u.ColdBlocks++
		u.ColdItems += int64(b.Items())
		u.ColdBytes += f.Bytes
		u.IndexBytes += f.IndexBytes
		if n := b.Tab.Len(); n > 0 {
			u.OverlayBlocks++
			u.OverlayItems += int64(n)
		}
		u.OverlayBytes += int64(len(b.Span.Data))
		if b.Cold.File.Err() != nil {
			u.Unusable++
		}
	}
	u.Overflows += int64(b.Tab.Overflows())
	return b.Hi
}

// CountAll counts the blocks of all counters and derived columns, one after the other.
func CountAll(s *core.Data) []Usage {
	var all []Usage
	u := Usage{}
	for n, more := 0, true; more; n++ {
		if n%s.Parts() == 0 && u.Counter != "" {
			all, u = append(all, u), Usage{}
		}
		for lo := uint64(0); lo < hot.EndMid; {
			s.Gate.RLock()
			var ks *block.Keyspace
			if ks, more = s.KeyspaceAt(n); ks == nil {
				s.Gate.RUnlock()
				break
			}
			u.Counter, u.Column, _ = strings.Cut(ks.CounterName, "/") // as the space of a derived column is named
			for i := 0; i < UsageStep && lo < hot.EndMid; i++ {
				lo = u.add(ks, lo)
			}
			s.Gate.RUnlock()
		}
	}
	if u.Counter != "" {
		all = append(all, u)
	}
	return all
}
