package counter

import "slices"

// directory is the ordered, disjoint and gapless list of blocks of a counter: together they cover [0, hot.EndMid).
// It is immutable; a change of the list makes a new one.
//
// The starts of the ranges lie apart from the blocks, so that a search reads one dense array (8 KB for 1000 blocks
// of 64 Ki items).
type directory struct {
	los    []uint64 // los[0] is 0
	blocks []*block
}

// find returns the block whose range holds mid.
func (d *directory) find(mid uint64) *block { return d.blocks[d.index(mid)] }

// index returns the last i with los[i] <= mid. New posts are asked for most, so the last block is tried first.
func (d *directory) index(mid uint64) int {
	los := d.los
	base, n := 0, len(los)
	if los[n-1] <= mid {
		return n - 1
	}
	// Invariant: the answer is in [base, base+n). The loop has no branch that depends on mid but the conditional
	// move, so the processor does not guess wrong.
	for n > 1 {
		half := n / 2
		if los[base+half] <= mid {
			base += half
		}
		n -= half
	}
	return base
}

// replace returns a directory with news, in order, in the place of the block that starts at lo.
func (d *directory) replace(lo uint64, news ...*block) *directory {
	i := d.index(lo)
	los := make([]uint64, len(news))
	for j, b := range news {
		los[j] = b.lo
	}
	return &directory{
		los:    slices.Concat(d.los[:i], los, d.los[i+1:]),
		blocks: slices.Concat(d.blocks[:i], news, d.blocks[i+1:]),
	}
}
