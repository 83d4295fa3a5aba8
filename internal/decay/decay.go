// Package decay adds up numbers that lose half of their worth in each half-life, so that time alone never changes which of two sums is
// larger: forward decay (Cormode, Shkapenyuk, Srivastava, Xu, "Forward Decay: A Practical Time Decay Model for Streaming Systems", ICDE 2009).
//
// Later additions count more, instead of earlier ones less: n at time t adds n * 2^(t/half-life), and a sum is divided by
// 2^(now/half-life) when it is read. Times are seconds since 1970, for all sums, so sums of different servers compare, and nothing has to be
// adjusted as time passes.
//
// # The stored sum
//
// 2^(t/half-life) has thousands of bits. A sum is therefore stored as a floating-point number: 33 bits, of which the first is 1 and left out,
// and the place of the first.
//
//	exponent + 1   31 bits | fraction   32 bits          0: nothing was added
//
// The larger the stored number, the larger the sum. With a half-life of six hours a stored sum takes 49 bits until 2059.
//
// # Exactness
//
// Everything is computed with integers: floating-point functions differ in their last bits between processors, and replicas must agree. An
// addition rounds the sum to 33 bits, an error of at most 2^-33 of the sum, and the moments of additions and of reads are exact to 2^-32 of a half-life, an error
// of at most 1.7*10^-10. So after k additions a sum is exact to about (k+4) * 2^-33 of itself, 0.012 % after a million additions. An addition that
// is less than 2^-33 of a sum does not change it.
package decay

import (
	"math"
	"math/bits"
)

const (
	fraction = 32
	// MaxSum is the largest stored sum.
	MaxSum = 1<<63 - 1
	// lastExponent keeps the places of later additions, 64 bits, below the end. A half-life of a minute comes there in some 4,000 years;
	// from then on nothing decays.
	lastExponent = 1<<31 - 80
)

// Scale is how much an addition counts at a moment.
type Scale struct {
	exponent uint64 // it counts 2^exponent * up/2^63
	up, down uint64 // 2^63 to 2^64-1. down is 2^64 divided by up/2^63
}

// At returns the scale of a moment, in seconds since 1970. REQUIRES seconds >= 0 and halfLife > 0, and both below 2^50.
func At(seconds, halfLife int64) Scale {
	e, rest := uint64(seconds/halfLife), uint64(seconds%halfLife)
	if e > lastExponent {
		e, rest = lastExponent, 0
	}
	f, _ := bits.Div64(rest>>32, rest<<32, uint64(halfLife)) // rest/halfLife in parts of 2^32
	s := Scale{e, exp2(f), 1 << 63}
	if f > 0 {
		s.down = exp2(1<<32 - f)
	} else {
		s.down = math.MaxUint64
	}
	return s
}

// Add returns the stored sum with n added. It never falls.
func (s Scale) Add(sum, n uint64) uint64 {
	if n == 0 {
		return sum
	}
	// The addition, as m * 2^(e-63) with 2^63 <= m < 2^64.
	shift := bits.LeadingZeros64(n)
	m, lo := bits.Mul64(n<<shift, s.up)
	e := s.exponent + uint64(64-shift)
	if m>>63 == 0 {
		m, e = m<<1|lo>>63, e-1
	}
	if sum >= 1<<fraction {
		was, at := mantissa(sum)
		if at > e || at == e && was > m {
			m, was, e, at = was, m, at, e
		}
		var carry uint64
		if m, carry = bits.Add64(m, was>>min(e-at, 64), 0); carry > 0 {
			m, e = m>>1|1<<63, e+1
		}
	}
	const half = 1 << (62 - fraction)
	m, carry := bits.Add64(m, half, 0)
	if carry > 0 {
		m, e = 1<<63, e+1
	}
	if e+1 > 1<<31-1 {
		return MaxSum
	}
	return max(sum, (e+1)<<fraction|m<<1>>(64-fraction))
}

// mantissa takes a stored sum apart: m * 2^(e-63).
func mantissa(sum uint64) (m, e uint64) {
	return 1<<63 | sum<<(64-fraction)>>1, sum>>fraction - 1
}

// Value is the worth of a stored sum at the moment of s, rounded to a whole number, at most 2^63-1. It does not fall if the stored sum rises, nor rise
// if time passes.
func (s Scale) Value(sum uint64) uint64 {
	if sum < 1<<fraction {
		return 0
	}
	m, e := mantissa(sum)
	hi, _ := bits.Mul64(m, s.down) // m/2^63 divided by up/2^63, in parts of 2^62 or less
	// The value is hi * 2^(e-exponent-63).
	switch {
	case e > s.exponent+63:
		return math.MaxInt64
	case e == s.exponent+63:
		return min(hi, math.MaxInt64)
	case e+1 < s.exponent: // it is below 1/2
		return 0
	}
	return min((hi>>(s.exponent+62-e)+1)>>1, math.MaxInt64)
}

// Faded is the largest stored sum that is worth at most 2^-6 at the moment of s: to forget it makes a value wrong by no more.
func (s Scale) Faded() uint64 {
	one := s.Add(0, 1)
	return one - min(one, faded<<fraction)
}

const faded = 6

// exp2 is 2^(f/2^32), in parts of 2^63, for f below 2^32. It is too small by less than 2^-58 of itself.
func exp2(f uint64) uint64 {
	v := powers[0][f>>24]
	for i := 1; i < len(powers); i++ {
		hi, lo := bits.Mul64(v, powers[i][f>>(24-8*i)&255])
		v = hi<<1 | lo>>63
	}
	return v
}

// powers are 2^(i/2^8), 2^(i/2^16), 2^(i/2^24) and 2^(i/2^32), in parts of 2^63.
var powers = func() (p [4][256]uint64) {
	for k := range p {
		for i := range p[k] {
			v := uint64(1 << 63)
			for bit := range 8 {
				if i>>(7-bit)&1 != 0 {
					hi, lo := bits.Mul64(v, roots[8*k+bit])
					v = hi<<1 | lo>>63
				}
			}
			p[k][i] = v
		}
	}
	return p
}()

// roots are the square root of 2, the root of that, and so on, in parts of 2^63, rounded down.
var roots = [32]uint64{
	0xb504f333f9de6484, 0x9837f0518db8a96f, 0x8b95c1e3ea8bd6e6, 0x85aac367cc487b14,
	0x82cd8698ac2ba1d7, 0x8164d1f3bc030773, 0x80b1ed4fd999ab6c, 0x8058d7d2d5e5f6b0,
	0x802c6436d0e04f50, 0x8016302f17467628, 0x800b179c82028fd0, 0x80058baf7fee3b5d,
	0x8002c5d00fdcfcb6, 0x800162e61bed4a48, 0x8000b17292f702a3, 0x800058b92abbae02,
	0x80002c5c8dade4d7, 0x8000162e44eaf636, 0x80000b1721fa7c18, 0x8000058b90de7e4c,
	0x800002c5c8678f36, 0x80000162e431db9f, 0x800000b1721872d0, 0x80000058b90c1aa8,
	0x8000002c5c8605a4, 0x800000162e4300e6, 0x8000000b17217ff8, 0x800000058b90bfdd,
	0x80000002c5c85fe6, 0x8000000162e42ff1, 0x80000000b17217f8, 0x8000000058b90bfc,
}
