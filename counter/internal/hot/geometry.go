package hot

import (
	"math/bits"

	"github.com/counterd/counterd/internal/slot"
)

const (
	slotsPerBucket = 8
	laneBytes      = 2 * slotsPerBucket
	headerBytes    = laneBytes + 1 // lanes and the passed count

	probeBits = 5  // of a lane: probe number + 1
	quoBits   = 11 // of a lane: low bits of the quotient

	// MaxProbes is how many buckets a key may look at. At 95 % load two in a million inserts need more.
	MaxProbes = 1<<probeBits - 1

	// EndMid is the exclusive end of the id space: mids are 0..EndMid-1.
	EndMid = uint64(1) << 63

	// twistInput makes the input of the twist's hash differ from a quotient. It is part of the image format, as hash is.
	twistInput = 0x2545f4914f6cdd1d

	// hashFirst and hashSecond are those of the hash, hashStep is that of the step.
	hashFirst  = 0x9e3779b97f4a7c15
	hashSecond = 0xd6e8feb86659fd93
	hashStep   = 0xbf58476d1ce4e5b9

	// MaxBuckets bounds a table to 8 Mi slots, so that a slot number takes 23 bits.
	MaxBuckets = 1 << 20
)

// geometry maps keys to places and back. It is immutable, so it may be used without any lock. It is small: see Table.
type geometry struct {
	base   uint64 // subtracted from a mid, or from its number in the group
	m      uint64 // buckets, prime (or 1)
	inv    uint64 // (2^64-1)/m, to divide by multiplication
	seed   uint64
	shift  uint8 // 64 less the bits that a quotient is stored in
	probes uint8 // min(MaxProbes, m), or fewer
	rest   uint8 // quotient bits that the lane does not hold

	oneGroup bool // keys are numbers of mids in group
	group    uint8
}

func newGeometry(c *Config) geometry {
	m := uint64(c.Buckets)
	g := geometry{base: c.Lo, m: m, inv: ^uint64(0) / m, seed: c.Seed, probes: uint8(min(MaxProbes, m)), oneGroup: c.OneGroup, group: c.Group}
	keys := c.Hi - c.Lo
	if c.OneGroup {
		g.base = slot.NumberFrom(c.Group, c.Lo)
		keys = max(1, slot.NumberFrom(c.Group, c.Hi)-g.base)
	}
	if c.Probes > 0 {
		g.probes = uint8(min(uint(g.probes), c.Probes))
	}
	if q := uint8(bits.Len64((keys - 1) / m)); q > quoBits {
		g.rest = q - quoBits
	}
	g.shift = 64 - quoBits - g.rest
	return g
}

// mask has as many ones as a quotient is stored in.
func (g *geometry) mask() uint64 { return ^uint64(0) >> (g.shift & 63) }

// divmod returns x/m and x%m. inv > 2^64/m - 1 - 1/m, so x*inv/2^64 > x/m - 1 and the estimate is the
// quotient or one less.
func (g *geometry) divmod(x uint64) (q, r uint64) {
	q, _ = bits.Mul64(x, g.inv)
	r = x - q*g.m
	if r >= g.m {
		q, r = q+1, r-g.m
	}
	return q, r
}

// twist is t(r) of the package comment.
func (g *geometry) twist(r uint64) uint64 { return g.hash(r^twistInput) >> (g.shift & 63) }

// hash mixes a twisted quotient; its high bits decide f(q), another multiple's high bits the step.
func (g *geometry) hash(q uint64) uint64 {
	h := (q ^ g.seed) * hashFirst
	h ^= h >> 32
	return h * hashSecond
}

// offset is f(q) of the package comment: 0..m-1.
func (g *geometry) offset(h uint64) uint64 {
	f, _ := bits.Mul64(h, g.m)
	return f
}

// step is 1..m-1 (0 for the single bucket, which is never left).
func (g *geometry) step(h uint64) uint64 {
	if g.m == 1 {
		return 0
	}
	s, _ := bits.Mul64((h^h>>29)*hashStep, g.m-1)
	return s + 1
}

// place returns the first bucket, the twisted quotient and its hash for mid in [lo, hi).
func (g *geometry) place(mid uint64) (bucket, q, h uint64) {
	if g.oneGroup {
		mid = slot.Number(mid)
	}
	q, r := g.divmod(mid - g.base)
	q = (q + g.twist(r)) & g.mask()
	h = g.hash(q)
	bucket = r + g.offset(h)
	if bucket >= g.m {
		bucket -= g.m
	}
	return bucket, q, h
}

// Home is the first bucket of a key and its twisted quotient. Together they are the key, so a table that is given them
// need not divide again.
type Home struct {
	quotient uint64
	bucket   uint32
	seen     uint8 // one more than the place in the first bucket where Peek saw the key; 0: it did not
}

// lane is the lane of the key in its first bucket.
func (h *Home) lane() uint64 { return h.quotient<<probeBits&0xffff | 1 }

// home returns the home of mid, which must be in the range.
func (g *geometry) home(mid uint64) Home {
	b, q, _ := g.place(mid)
	return Home{quotient: q, bucket: uint32(b)}
}

// next returns the bucket that a key looks at after bucket b.
func (g *geometry) next(b, step uint64) uint64 {
	if b += step; b >= g.m {
		b -= g.m
	}
	return b
}

// back returns (bucket - n) mod m, for n up to 2^32.
func (g *geometry) back(bucket, n uint64) uint64 {
	_, n = g.divmod(n)
	if bucket < n {
		bucket += g.m
	}
	return bucket - n
}

// unplace returns the mid whose twisted quotient q was found at its probe-th bucket: the inverse of place and probing.
func (g *geometry) unplace(bucket, q uint64, probe uint) uint64 {
	key := g.key(bucket, q, probe)
	if g.oneGroup {
		return slot.Post(g.group, key)
	}
	return key
}

// key is the mid, or of tables of a group its number, that unplace returns: rising with it.
func (g *geometry) key(bucket, q uint64, probe uint) uint64 {
	h := g.hash(q)
	r := g.offset(h)
	if probe > 0 { // one in four, in a full table
		r += uint64(probe) * g.step(h)
	}
	if r < g.m {
		if r = bucket - r; r >= g.m { // below 0
			r += g.m
		}
	} else {
		r = g.back(bucket, r)
	}
	return g.base + ((q-g.twist(r))&g.mask())*g.m + r
}

// keys returns the keys of mids from lo to hi: from first on, below end.
func (g *geometry) keys(lo, hi uint64) (first, end uint64) {
	hi = min(hi, EndMid-1)
	if !g.oneGroup {
		return lo, hi + 1
	}
	return slot.NumberFrom(g.group, lo), slot.NumberFrom(g.group, hi+1)
}

// primeAtLeast returns the smallest prime >= n, by trial division: a table is made once for thousands of inserts.
func primeAtLeast(n uint64) uint64 {
	if n <= 2 {
		return n
	}
	for n |= 1; ; n += 2 {
		prime := true
		for d := uint64(3); d*d <= n; d += 2 {
			if n%d == 0 {
				prime = false
				break
			}
		}
		if prime {
			return n
		}
	}
}
