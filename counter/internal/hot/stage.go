package hot

import (
	"math/bits"
	"unsafe"
)

// stage has picked items whose keys are not known yet. All stays in the first cache. Each of its loops is a function of its own, as each needs
// all registers, and none has a branch that the processor would guess wrong.
type stage struct {
	lanes   [stageItems]uint64 // above a lane, the rest of the quotient
	columns [stageItems]uint64
	refs    [stageItems]uint64
	keys    [stageItems]uint64 // at first their remainders
	moved   [stageItems]uint8  // items that are not in their first bucket, one in four of a full table
}

const stageItems = 256

// put puts the items of the bucket at b with a bit in hits behind n others, and returns how many there are then.
//
//go:noinline
func (s *stage) put(b unsafe.Pointer, first, hits uint64, rest, columns *packedSlots, n int) int {
	for ; hits != 0; hits &= hits - 1 {
		at := bits.TrailingZeros64(hits) & 7
		i := n & (stageItems - 1)
		s.columns[i] = columns.of(b, at)
		s.lanes[i] = uint64(load16(b, uintptr(2*at))) | rest.of(b, at)<<(probeBits+quoBits)
		s.refs[i] = first + uint64(at)
		n++
	}
	return n
}

// firstRemainders finds the remainders of n items that are in their first buckets. It returns how many items are not.
//
//go:noinline
func (s *stage) firstRemainders(g *geometry, n int) (moved int) {
	m, seed := g.m, g.seed
	for i := range min(n, stageItems) {
		lane := s.lanes[i]
		s.moved[moved&(stageItems-1)] = uint8(i)
		moved += int((lane&(1<<probeBits-1) + 1<<probeBits - 2) >> probeBits) // one more where the probe is not the first
		h := (lane>>probeBits ^ seed) * hashFirst
		f, _ := bits.Mul64((h^h>>32)*hashSecond, m) // offset
		r := s.refs[i]>>3 - f
		s.keys[i] = r + m&uint64(int64(r)>>63)
	}
	return moved
}

// movedRemainders finds the remainders of the first n moved items.
//
//go:noinline
func (s *stage) movedRemainders(g *geometry, n int) {
	for _, i := range s.moved[:n] {
		lane := s.lanes[i]
		h := g.hash(lane >> probeBits)
		_, n := g.divmod(g.offset(h) + (lane&(1<<probeBits-1)-1)*g.step(h))
		r := s.refs[i]>>3 - n
		s.keys[i] = r + g.m&uint64(int64(r)>>63)
	}
}

// untwist makes found the items, whose keys are their remainders. seed is that of the twist.
//
//go:noinline
func (s *stage) untwist(g *geometry, seed uint64, found []Found) {
	base, m, mask, twist := g.base, g.m, g.mask(), g.shift&63
	for i := range found {
		r := s.keys[i&(stageItems-1)]
		h := (r ^ seed) * hashFirst
		h = (h ^ h>>32) * hashSecond
		found[i] = Found{base + (s.lanes[i&(stageItems-1)]>>probeBits-h>>twist)&mask*m + r, s.columns[i&(stageItems-1)]}
	}
}
