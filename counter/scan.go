package counter

import (
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
		def    *schema.Counter
		ks     *keyspace
		mids   []uint64
		copies []*sortedBlock // that mids came from
	}
	var parts []part
	upto := hot.EndMid // all mids below are in parts
	for _, def := range b.Schema().Counters() {
		ks := b.s.spaces[def.ID]
		mids, end, copies := b.s.scans.mids(ks, cursor, count)
		parts = append(parts, part{def, ks, mids, copies})
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
			if p.ks.exists(first) {
				dst = append(dst, ScanItem{p.def, first})
			}
		}
	}
	if next != 0 {
		for i := range parts {
			b.s.scans.expect(parts[i].ks, next, parts[i].copies)
		}
	}
	return dst, next
}
