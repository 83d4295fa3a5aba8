package postgen

import "math/bits"

// RNG is a stream of pseudo-random numbers (splitmix64). A stream is its seed: the same seed gives the same
// numbers again. A run is verified that way, without a record of its operations. The zero value is a stream too.
type RNG struct{ State uint64 }

const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: the step of splitmix64

// NewRNG returns the stream of a seed and, within it, of some numbers that tell streams apart, such as a worker's.
func NewRNG(seed uint64, parts ...uint64) RNG {
	h := Mix(seed)
	for _, part := range parts {
		h = Mix(h ^ Mix(part+golden))
	}
	return RNG{h}
}

// Next returns the next number of the stream.
func (r *RNG) Next() uint64 {
	r.State += golden
	return Mix(r.State)
}

// Below returns a number in [0, n). n must not be 0. Its bias, n/2^64, is of no account here.
func (r *RNG) Below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.Next(), n)
	return hi
}

// Float returns a number in [0, 1).
func (r *RNG) Float() float64 { return float64(r.Next()>>11) * 0x1p-53 }

// Mix is splitmix64's output function, a bijection of 64-bit numbers that leaves no pattern.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
