package decay

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// precision is that of the model, in bits.
const precision = 400

func float(n uint64) *big.Float {
	return new(big.Float).SetPrec(precision).SetInt(new(big.Int).SetUint64(n))
}

// root2 are the square root of 2, the root of that, and so on.
var root2 = func() (list [150]*big.Float) {
	root := float(2)
	for i := range list {
		root = new(big.Float).SetPrec(precision).Sqrt(root)
		list[i] = root
	}
	return list
}()

// power is 2^(seconds/halfLife).
func power(seconds, halfLife int64) *big.Float {
	v, part := float(1), seconds%halfLife
	for _, root := range root2 { // the fraction, bit by bit
		if part *= 2; part >= halfLife {
			part -= halfLife
			v.Mul(v, root)
		}
	}
	return v.SetMantExp(v, int(seconds/halfLife))
}

// TestRoots computes the table of roots again.
func TestRoots(t *testing.T) {
	for i, got := range roots {
		if want, _ := new(big.Float).SetMantExp(root2[i], 63).Uint64(); got != want {
			t.Errorf("root %d: got %#x, want %#x", i, got, want)
		}
	}
}

// near tells whether a value is that of a sum after k additions.
func near(got uint64, want *big.Float, k int) bool {
	w, _ := want.Float64()
	if got == math.MaxInt64 {
		return w > math.MaxInt64*0.999999
	}
	return math.Abs(float64(got)-w) <= 0.5+1e-9+w*float64(k+4)/(1<<33)
}

func randomHalfLife(rng *rand.Rand) int64 {
	return []int64{60, 61, 3600, 6 * 3600, 86400, 366 * 86400, 60 + rng.Int64N(1e6)}[rng.IntN(7)]
}

// TestSums compares sums with a model of large floating-point numbers.
func TestSums(t *testing.T) {
	rng := seed.Rand(t)
	for range 200 {
		halfLife := randomHalfLife(rng)
		now := []int64{0, 1, 1.7e9, 1 << 40}[rng.IntN(4)]
		if now/halfLife > 1<<29 { // more than the model's exponents
			now = 1.7e9
		}
		sum, model := uint64(0), float(0) // the model is not divided by that of now
		for k := range 1 + rng.IntN(60) {
			switch rng.IntN(4) {
			case 0:
				now += rng.Int64N(1 + halfLife/100)
			case 1:
				now += rng.Int64N(halfLife)
			case 2:
				if rng.IntN(8) == 0 {
					now += rng.Int64N(40 * halfLife)
				}
			}
			n := rng.Uint64N(5)
			if rng.IntN(4) == 0 {
				n = rng.Uint64() >> (1 + rng.IntN(63))
			}
			was := sum
			if sum = At(now, halfLife).Add(sum, n); sum < was || n > 0 && was == 0 && sum == 0 {
				t.Fatalf("half-life %d: %d with %d added is %d", halfLife, was, n, sum)
			}
			model.Add(model, new(big.Float).Mul(float(n), power(now, halfLife)))
			later := now + rng.Int64N(20*halfLife)*rng.Int64N(2)
			got, want := At(later, halfLife).Value(sum), new(big.Float).Quo(model, power(later, halfLife))
			if !near(got, want, k+1) {
				t.Fatalf("half-life %d, at %d after %d additions: got %d, want %v", halfLife, later, k+1, got, want)
			}
		}
	}
}

// TestOrder: the value follows the order of the stored sums, at each moment, and falls as time passes.
func TestOrder(t *testing.T) {
	rng := seed.Rand(t)
	for range 20_000 {
		halfLife := randomHalfLife(rng)
		at := rng.Int64N(1 << 31)
		a := At(at, halfLife).Add(0, 1+rng.Uint64()>>(1+rng.IntN(63)))
		b := a + rng.Uint64()>>(30+rng.IntN(34))
		now := at + rng.Int64N(30*halfLife) - 2*halfLife
		now = max(now, 0)
		later := now + rng.Int64N(1+halfLife>>rng.IntN(30))
		x, y, z := At(now, halfLife).Value(a), At(now, halfLife).Value(b), At(later, halfLife).Value(a)
		if x > y || z > x {
			t.Fatalf("half-life %d: sums %#x and %#x are %d and %d at %d; the first is %d at %d", halfLife, a, b, x, y, now, z, later)
		}
	}
}

// TestSameMoment: additions of this moment read as they were added.
func TestSameMoment(t *testing.T) {
	rng := seed.Rand(t)
	for range 20_000 {
		s := At(rng.Int64N(1<<40), randomHalfLife(rng))
		sum, want := uint64(0), uint64(0)
		for range 1 + rng.IntN(5) {
			n := rng.Uint64N(1 << 28)
			sum, want = s.Add(sum, n), want+n
		}
		if got := s.Value(sum); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

// TestHalves: a half-life halves.
func TestHalves(t *testing.T) {
	const at, halfLife = 1_700_000_123, 6 * 3600
	sum := At(at, halfLife).Add(0, 1000)
	for i, want := range []uint64{1000, 500, 250, 125, 63, 31, 16, 8, 4, 2, 1, 0} {
		if got := At(at+int64(i)*halfLife, halfLife).Value(sum); got != want {
			t.Errorf("after %d half-lives: got %d, want %d", i, got, want)
		}
	}
	if got := At(at, halfLife).Value(0); got != 0 {
		t.Errorf("nothing is worth %d", got)
	}
	if sum>>49 != 0 {
		t.Errorf("a sum takes more than 49 bits: %#x", sum)
	}
}

// TestFaded: a forgotten sum is worth less than 1/64, and a sum that is worth more stays.
func TestFaded(t *testing.T) {
	s := At(1.7e9, 3600)
	at := func(halves int64) uint64 { return At(1.7e9-halves*3600, 3600).Add(0, 1) }
	if at(5) <= s.Faded() || at(6) > s.Faded() || at(100) > s.Faded() {
		t.Errorf("faded %#x, one added five half-lives ago is %#x, six ago %#x", s.Faded(), at(5), at(6))
	}
	if got := At(0, 3600).Faded(); got != 0 {
		t.Errorf("at the beginning of time %#x has faded", got)
	}
}

// TestEnds: the largest numbers stay the largest.
func TestEnds(t *testing.T) {
	s := At(1<<49, 1)
	sum := uint64(0)
	for range 1000 {
		was := sum
		if sum = s.Add(sum, math.MaxUint64); sum < was || sum > MaxSum {
			t.Fatalf("%#x after %#x", sum, was)
		}
	}
	if got := s.Value(sum); got != math.MaxInt64 {
		t.Errorf("got %d, want the largest value", got)
	}
	if got := s.Add(MaxSum, 1); got != MaxSum {
		t.Errorf("got %#x, want the largest sum", got)
	}
}

func FuzzAdd(f *testing.F) {
	f.Add(uint64(0), uint64(1), int64(1.7e9), int64(3600))
	f.Add(uint64(1)<<32|5, uint64(math.MaxUint64), int64(0), int64(60))
	f.Add(uint64(MaxSum), uint64(1), int64(1)<<49, int64(1))
	f.Fuzz(func(t *testing.T, sum, n uint64, seconds, halfLife int64) {
		sum, seconds, halfLife = sum&MaxSum, seconds&(1<<50-1), halfLife&(1<<50-1)
		if halfLife == 0 {
			return
		}
		s := At(seconds, halfLife)
		next := s.Add(sum, n)
		if next < sum || next > MaxSum {
			t.Fatalf("%#x with %d added is %#x", sum, n, next)
		}
		if s.Value(next) < s.Value(sum) {
			t.Fatalf("%#x with %d added is worth less", sum, n)
		}
		if more := s.Add(sum, n|1); n&1 == 0 && more < next {
			t.Fatalf("%#x with %d added is more than with one more", sum, n)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	sum := uint64(0)
	for i := range b.N {
		sum = At(1.7e9+int64(i&1023), 21600).Add(sum, 3)
	}
	sink = sum
}

func BenchmarkValue(b *testing.B) {
	sum, n := At(1.7e9, 21600).Add(0, 12345), uint64(0)
	for i := range b.N {
		n += At(1.7e9+int64(i&1023), 21600).Value(sum)
	}
	sink = n
}

var sink uint64
