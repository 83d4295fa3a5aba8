package bench

import "math/bits"

// rng is a stream of pseudo-random numbers (splitmix64). A stream is its seed: whoever knows the seed can draw the same
// numbers again, which is how a run is verified without remembering what it sent. The zero value is a stream too.
type rng struct{ state uint64 }

const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: the step of splitmix64

// newRNG returns the stream of a seed and, within it, of some numbers that tell streams apart, such as a worker's.
func newRNG(seed uint64, parts ...uint64) rng {
	h := mix(seed)
	for _, part := range parts {
		h = mix(h ^ mix(part+golden))
	}
	return rng{h}
}

func (r *rng) next() uint64 {
	r.state += golden
	return mix(r.state)
}

// below returns a number in [0, n). n must not be 0. Its bias, n/2^64, is of no account here.
func (r *rng) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// float returns a number in [0, 1).
func (r *rng) float() float64 { return float64(r.next()>>11) * 0x1p-53 }

// mix is splitmix64's output function, a bijection of 64-bit numbers that leaves no pattern.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
