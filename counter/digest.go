package counter

import (
	"fmt"
	"math/bits"
)

// Digest is a sum over items that does not depend on how they are stored: nodes with the same items have the same digest, whatever their
// blocks and tiers. Two that differ are found by comparing halves of the range.
type Digest struct {
	Items uint64
	Sum   uint64
}

func (d Digest) String() string { return fmt.Sprintf("items=%d digest=%016x", d.Items, d.Sum) }

// Digest sums the items of a counter with mids in [lo, hi). Blocks are read one after the other, each under its lock: while there are changes
// the sum is of no one moment. The error is ErrNoKey, or ErrCold.
func (b *Batch) Digest(counterName string, lo, hi uint64) (d Digest, err error) {
	def := b.Schema().Counter(counterName)
	if def == nil {
		return d, fmt.Errorf("%w: %q", ErrNoKey, counterName)
	}
	ks := b.s.spaces[def.ID]
	var mids, row []uint64
	for last := false; !last && lo < hi; {
		blk := ks.lockFor(ks.dir.Load().find(lo), lo)
		mids = blk.appendMids(mids[:0])
		for _, mid := range mids {
			if mid < lo || mid >= hi {
				continue
			}
			p, ferr := blk.find(mid)
			if ferr == nil && p.found() {
				row, ferr = ks.appendRow(row[:0], blk, mid, p)
			}
			if ferr != nil {
				blk.mu.Unlock()
				return d, ferr
			}
			d.Items++
			h := mix(mid)
			for c, v := range row {
				h = mix(h ^ v ^ bits.RotateLeft64(uint64(def.Columns[c].ID), 48))
			}
			d.Sum += h
		}
		lo, last = blk.hi, blk.open()
		blk.mu.Unlock()
	}
	return d, nil
}

// mix is splitmix64's finalizer: each bit of x changes half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
