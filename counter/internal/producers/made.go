package producers

import (
	"math/bits"
	"slices"
)

// made is a set of seqs that were made and whose results are not kept any more, as spans that ascend:
//
//	key     seq/64 of the first block << 6 | blocks - 1
//	bits    which seqs of the block; all of them where there are several blocks
//
// A run of 4,096 seqs takes one span, 16 bytes. If a shard of three sees each third seq of a producer, a seq takes 0.76 bytes.
//
// Invariant: spans do not overlap, and none is empty.
type made struct {
	spans []span
	count uint32 // of seqs
}

type span struct{ key, bits uint64 }

const (
	spanSize   = 16
	blockSeqs  = 64
	maxBlocks  = 64 // of a span
	fullBlock  = 1<<64 - 1
	blockShift = 6
)

func newSpan(block, blocks, bits uint64) span { return span{block<<blockShift | (blocks - 1), bits} }

func (s span) block() uint64  { return s.key >> blockShift }
func (s span) blocks() uint64 { return s.key&(maxBlocks-1) + 1 }

// end is the block behind it.
func (s span) end() uint64 { return s.block() + s.blocks() }

// seqs is how many it has.
func (s span) seqs() uint32 {
	if n := s.blocks(); n > 1 {
		return uint32(n) * blockSeqs
	}
	return uint32(bits.OnesCount64(s.bits))
}

// find returns the first span that ends behind a block.
func (m *made) find(block uint64) int {
	if n := len(m.spans); n == 0 || m.spans[n-1].end() <= block { // the usual case of a new seq
		return n
	} else if m.spans[n-1].block() <= block {
		return n - 1
	}
	i, _ := slices.BinarySearchFunc(m.spans, block, func(s span, block uint64) int {
		if s.end() <= block {
			return -1
		}
		return 1
	})
	return i
}

// has tells whether seq is in the set.
func (m *made) has(seq uint64) bool {
	if m.count == 0 {
		return false
	}
	block := seq / blockSeqs
	i := m.find(block)
	return i < len(m.spans) && m.spans[i].block() <= block && m.spans[i].bits>>(seq%blockSeqs)&1 != 0
}

// add adds a seq.
func (m *made) add(seq uint64) {
	block, bit := seq/blockSeqs, uint64(1)<<(seq%blockSeqs)
	i := m.find(block)
	if i == len(m.spans) || m.spans[i].block() > block {
		m.insert(i, newSpan(block, 1, bit))
		m.count++
		return
	}
	s := &m.spans[i]
	if s.bits&bit != 0 {
		return
	}
	m.count++
	if s.bits |= bit; s.bits != fullBlock {
		return
	}
	if i+1 < len(m.spans) {
		m.join(i)
	}
	if i > 0 {
		m.join(i - 1)
	}
}

// join makes spans i and i+1 one, if both are full and neighbours.
func (m *made) join(i int) {
	a, b := m.spans[i], m.spans[i+1]
	if n := a.blocks() + b.blocks(); a.bits&b.bits == fullBlock && a.end() == b.block() && n <= maxBlocks {
		m.spans[i] = newSpan(a.block(), n, fullBlock)
		m.spans = slices.Delete(m.spans, i+1, i+2)
	}
}

// grown is the capacity with one more span: 2, 6, 14. A run of 10,000 seqs has 6 at most.
func (m *made) grown() int {
	if n := len(m.spans); n == cap(m.spans) {
		return max(min(2*n+2, maxSpans+1), n+1)
	}
	return cap(m.spans)
}

// insert puts a span at i.
func (m *made) insert(i int, s span) {
	if len(m.spans) == cap(m.spans) {
		grown := make([]span, len(m.spans), m.grown())
		copy(grown, m.spans)
		m.spans = grown
	}
	m.spans = slices.Insert(m.spans, i, s)
}

// lowest is the lowest seq. REQUIRES: there is one.
func (m *made) lowest() uint64 {
	s := m.spans[0]
	return s.block()*blockSeqs + uint64(bits.TrailingZeros64(s.bits))
}

// highest is the highest seq. REQUIRES: there is one.
func (m *made) highest() uint64 {
	s := m.spans[len(m.spans)-1]
	return (s.end()-1)*blockSeqs + uint64(bits.Len64(s.bits)-1)
}

// removeBelow removes the seqs below from.
func (m *made) removeBelow(from uint64) {
	block, gone := from/blockSeqs, m.find(from/blockSeqs)
	for _, s := range m.spans[:gone] {
		m.count -= s.seqs()
	}
	m.spans = slices.Delete(m.spans, 0, gone)
	if len(m.spans) == 0 {
		m.spans = nil
		return
	}
	s := m.spans[0]
	if s.block() > block {
		return
	}
	m.count -= s.seqs()
	left := s.bits &^ (1<<(from%blockSeqs) - 1)
	switch more := s.end() - block - 1; { // full blocks behind the one of from
	case more > 0 && left == fullBlock:
		s = newSpan(block, more+1, fullBlock)
	case more > 0:
		m.spans[0] = newSpan(block+1, more, fullBlock)
		m.count += m.spans[0].seqs()
		s = newSpan(block, 1, left)
		m.insert(0, s)
	case left == 0:
		m.spans = slices.Delete(m.spans, 0, 1)
		return
	default:
		s = newSpan(block, 1, left)
	}
	m.spans[0] = s
	m.count += s.seqs()
}

// excess is the seq below which seqs have to go so that a set of more than most seqs loses its lowest block, or one of more spans its
// lowest span. It is 0 if nothing has to go. REQUIRES: most is at least 64, spans at least 1, so that higher seqs stay.
func (m *made) excess(most uint32, spans int) (from uint64) {
	switch {
	case m.count > most:
		return (m.spans[0].block() + 1) * blockSeqs
	case len(m.spans) > spans:
		return m.spans[0].end() * blockSeqs
	}
	return 0
}

// cost is the memory of the spans.
func (m *made) cost() int64 { return int64(cap(m.spans)) * spanSize }

// costWith is the cost with one more span.
func (m *made) costWith() int64 { return int64(m.grown()) * spanSize }
