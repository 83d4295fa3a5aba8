package postgen

import (
	"fmt"
	"math"
)

// Posts is a sequence of posts: mids that increase with their index, 0 the oldest.
//
// An implementation may be used by any number of goroutines.
type Posts interface {
	Len() int
	MID(i int) uint64
}

// MIDs are Posts at hand.
type MIDs []uint64

func (m MIDs) Len() int         { return len(m) }
func (m MIDs) MID(i int) uint64 { return m[i] }

const (
	// MeanGap is the mean distance between the mids of neighbouring posts: that of a dense network-wide stream, where a
	// mid is a time of 2^22 a second and 1,000 posts a second arrive.
	MeanGap = 4000

	// FirstMID is where generated mids start. They have 16 digits, as mids have had since 2011, and stay below those of
	// the traces there are, of 2013, so that a replay has posts of its own.
	FirstMID = 3_000_000_000_000_000

	maxGap = math.MaxUint16 // a longer gap has a probability of e^-16: it is cut
)

// GeneratedPosts are posts with exponential gaps of mean MeanGap between their mids, as of independent people who post.
// The same seed gives the same posts, and a longer sequence starts with a shorter one.
//
// Len is how many there are at first. Indexes go on beyond it, without bound, for posts that arrive later: of those,
// each has a place of MeanGap mids to itself and lies anywhere within.
//
// They take 2.25 bytes a post: the gaps, and every 32nd mid, so that a mid is the sum of at most 31 gaps, which share a
// cache line. Eight bytes a post would be 8 GB of the generator's memory for the largest runs.
type GeneratedPosts struct {
	anchors []uint64 // mids of the posts 0, 32, 64, ...
	gaps    []uint16 // gaps[i] = mid of post i less that of the post before it; 0 at an anchor
	last    uint64   // mid of the last post
	seed    uint64
}

const anchorEvery = 32

// MaxPosts bounds GeneratedPosts, whose mids must stay below 2^63.
const MaxPosts = 1 << 32

// GeneratePosts returns n posts.
func GeneratePosts(n int, seed uint64) (*GeneratedPosts, error) {
	if n < 1 || n > MaxPosts {
		return nil, fmt.Errorf("%d posts, want 1..%d", n, MaxPosts)
	}
	p := &GeneratedPosts{anchors: make([]uint64, 0, n/anchorEvery+1), gaps: make([]uint16, n)}
	random := NewRNG(seed, streamMIDs)
	mid := uint64(FirstMID)
	for i := range n {
		// At least 1: mids are distinct.
		gap := min(1+uint64(-math.Log(1-random.Float())*(MeanGap-1)), maxGap)
		mid += gap
		if i%anchorEvery == 0 {
			p.anchors = append(p.anchors, mid)
			continue
		}
		p.gaps[i] = uint16(gap)
	}
	p.last, p.seed = mid, random.Next()
	return p, nil
}

func (p *GeneratedPosts) Len() int { return len(p.gaps) }

func (p *GeneratedPosts) MID(i int) uint64 {
	if later := i - len(p.gaps); later >= 0 {
		return p.last + 1 + uint64(later)*MeanGap + Mix(p.seed+uint64(later))%MeanGap
	}
	anchor := i / anchorEvery
	mid := p.anchors[anchor]
	for _, gap := range p.gaps[anchor*anchorEvery : i+1] {
		mid += uint64(gap)
	}
	return mid
}

// The streams of random numbers that a seed gives, see NewRNG.
const (
	streamMIDs = iota
	streamRows
	StreamClient
)
