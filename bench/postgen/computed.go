package postgen

import (
	"fmt"
	"math"
)

// ComputedPosts are posts as GeneratedPosts are, of which no memory is needed: 10^10 of those would take 22 GB. A mid is
// computed from its index, in 0.5 us, and many in a row at 15 ns each (Append).
//
// Each 32 posts share a stretch of 32*MeanGap mids, in which they lie anywhere, independently: so gaps are exponential,
// but for the ends of stretches. The same seed gives the same posts, whatever their number.
type ComputedPosts struct {
	n    int
	seed uint64
}

const (
	computedStretch = 32
	computedSpan    = computedStretch * MeanGap

	// MaxComputedPosts bounds them, so that mids stay below 2^63 with posts to come.
	MaxComputedPosts = 1 << 48
)

// ComputePosts returns n posts.
func ComputePosts(n int, seed uint64) (*ComputedPosts, error) {
	if n < 1 || n > MaxComputedPosts {
		return nil, fmt.Errorf("%d posts, want 1..%d", n, int64(MaxComputedPosts))
	}
	random := NewRNG(seed, streamMIDs)
	return &ComputedPosts{n: n, seed: random.Next()}, nil
}

func (p *ComputedPosts) Len() int { return p.n }

// MID returns the mid of post i, which may be beyond Len, as posts that arrive later are.
func (p *ComputedPosts) MID(i int) uint64 {
	var mids [computedStretch]uint64
	p.stretch(i/computedStretch, &mids)
	return mids[i%computedStretch]
}

// stretch computes the mids of a stretch. Places of independent posts, in order, are sums of exponential gaps, divided
// by the sum with the gap behind the last.
func (p *ComputedPosts) stretch(s int, mids *[computedStretch]uint64) {
	random := RNG{p.seed + uint64(s)*Mix(golden)}
	var sums [computedStretch]float64
	sum := 0.0
	for i := range sums {
		sum -= math.Log(1 - random.Float())
		sums[i] = sum
	}
	sum -= math.Log(1 - random.Float())
	// The i posts before take a mid each, so all are distinct.
	scale := (computedSpan - computedStretch) / sum
	base := FirstMID + uint64(s)*computedSpan
	for i, at := range sums {
		mids[i] = base + uint64(at*scale) + uint64(i)
	}
}

// Append appends the mids of n posts from post i on.
func (p *ComputedPosts) Append(mids []uint64, i, n int) []uint64 {
	var some [computedStretch]uint64
	for end := i + n; i < end; {
		p.stretch(i/computedStretch, &some)
		from := i % computedStretch
		to := min(computedStretch, from+end-i)
		mids = append(mids, some[from:to]...)
		i += to - from
	}
	return mids
}
