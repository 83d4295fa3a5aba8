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
	keys    [stageItems]uint64
	moved   [stageItems]uint8 // items that are not in their first bucket, one in four of a full table

	vectors   vectors
	masks     bucketMasks
	unpackers unpackers
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

// putMost is put where most items of the bucket have a bit in hits, and each is in one word: those without one are put, too, and the next ones
// take their places. The last of the bucket may be put behind all that are there then.
//
//go:noinline
func (s *stage) putMost(b unsafe.Pointer, first, hits uint64, rest *packedSlots, columns uint64, restBits uint8, n int) int {
	for at := range slotsPerBucket {
		i := n & (stageItems - 1)
		word := load64(b, uintptr(rest.off[at])) >> (rest.shift[at] & 7)
		s.columns[i] = word >> (restBits & 63) & columns
		s.lanes[i] = uint64(load16(b, uintptr(2*at))) | word&rest.mask<<(probeBits+quoBits)
		s.refs[i] = first + uint64(at)
		n += int(hits & 1)
		hits >>= 1
	}
	return n
}

// firstKeys finds the keys, and more is added to each, of the items that are in their first buckets, and makes words of all: keys above low
// bits of columns. It returns how many items are in other buckets.
//
//go:noinline
func (s *stage) firstKeys(g *geometry, words []uint64, more uint64, low uint) (moved int) {
	m, seed, mask, twist := g.m, g.seed, g.mask(), g.shift&63
	for i := range words {
		i := i & (stageItems - 1)
		lane := s.lanes[i]
		s.moved[moved&(stageItems-1)] = uint8(i)
		moved += int((lane&(1<<probeBits-1) + 1<<probeBits - 2) >> probeBits) // one more where the probe is not the first
		q := lane >> probeBits
		h := (q ^ seed) * hashFirst
		f, _ := bits.Mul64((h^h>>32)*hashSecond, m) // offset
		r := s.refs[i]>>3 - f
		r = min(r, r+m)
		h = (r ^ seed ^ twistInput) * hashFirst
		h = (h ^ h>>32) * hashSecond
		key := (q-h>>twist)&mask*m + r + more
		s.keys[i] = key
		words[i] = key<<(low&63) | s.columns[i]
	}
	return moved
}

// movedKeys is firstKeys of the first n moved items.
//
//go:noinline
func (s *stage) movedKeys(g *geometry, words []uint64, more uint64, low uint, n int) {
	for _, i := range s.moved[:n] {
		lane := s.lanes[i]
		q := lane >> probeBits
		h := g.hash(q)
		_, n := g.divmod(g.offset(h) + (lane&(1<<probeBits-1)-1)*g.step(h))
		r := s.refs[i]>>3 - n
		r += g.m & uint64(int64(r)>>63)
		key := (q-g.twist(r))&g.mask()*g.m + r + more
		s.keys[i] = key
		words[i] = key<<(low&63) | s.columns[i]
	}
}
