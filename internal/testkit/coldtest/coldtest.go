// Package coldtest has the random rows that tests of cold files and of their pages share. Only tests import it.
package coldtest

import "math/rand/v2"

// Gaps returns a function that draws the distances of neighbouring mids, of a random kind.
func Gaps(rnd *rand.Rand) func() uint64 {
	step := uint64(1)
	if rnd.IntN(3) == 0 {
		step = 1 + rnd.Uint64N(5000)
	}
	switch mean := float64(uint64(1) << rnd.IntN(40)); rnd.IntN(5) {
	case 0:
		return func() uint64 { return step }
	case 1: // nearly equal gaps
		least, spread := 1+rnd.Uint64N(1<<20), 1+rnd.Uint64N(8)
		return func() uint64 { return step * (least + rnd.Uint64N(spread)) }
	case 2: // bursts
		return func() uint64 {
			if rnd.IntN(50) == 0 {
				return step * (1 + uint64(rnd.ExpFloat64()*mean))
			}
			return step
		}
	default:
		return func() uint64 { return step * (1 + uint64(rnd.ExpFloat64()*mean)) }
	}
}

// Values returns a function that draws values of up to max bits, of a random kind.
func Values(rnd *rand.Rand, max uint8) func() uint64 {
	m := mask(uint(max))
	common := rnd.Uint64() & m
	switch rnd.IntN(7) {
	case 0:
		return func() uint64 { return common }
	case 1:
		return func() uint64 { return rnd.Uint64() & m }
	case 2:
		small := mask(uint(rnd.IntN(int(max)) + 1))
		return func() uint64 { return rnd.Uint64() & small }
	case 3: // mostly one value, in the middle
		return func() uint64 {
			if rnd.IntN(10) > 0 {
				return common
			}
			return rnd.Uint64() & m
		}
	case 4: // any magnitude
		return func() uint64 { return rnd.Uint64() >> rnd.IntN(64) & m }
	case 5: // the ends
		return func() uint64 { return m * rnd.Uint64N(2) }
	default:
		return func() uint64 { return PostValue(rnd) & m }
	}
}

// PostValue draws from the shape of the counters of posts that have any: a third zero, half of the rest one; with
// the share of posts without any 0.3 % of all values are above 255 and 0.01 % above 65535, as in real data.
func PostValue(rnd *rand.Rand) uint64 {
	switch p := rnd.IntN(1000); {
	case p < 350:
		return 0
	case p < 650:
		return 1
	case p < 930:
		return 2 + uint64(rnd.ExpFloat64()*6)
	case p < 979:
		return 20 + uint64(rnd.ExpFloat64()*50)
	case p < 999:
		return 256 + uint64(rnd.ExpFloat64()*5000)
	default:
		return 65536 + rnd.Uint64N(900000)
	}
}

// mask returns w ones.
func mask(w uint) uint64 { return 1<<w - 1 }
