package postgen

import (
	"math"
	"math/bits"
)

// Picker chooses posts as the readers of a site do: young ones, and among those of one age a few that everybody reads.
//
// Age. On a real trace 79 % of the reposts hit a post younger than a day and 93 % one younger than a week. The curve
// through both is a power law: P(age > t) = (1 + t/tau)^-0.565 with tau = 1.62 hours. The posts at hand, however many,
// stand for the 100 days that the trace spans; so the curve keeps its shape at every scale.
//
// Popularity. The top 1 % of posts take 66 to 79 % of the increments. Posts are sorted by age into classes of up to 4,096,
// and within a class chosen by a Zipf law with exponent 1.2, whose top 1 % take 69 %. The popular posts of a class are
// scattered over it.
//
// A Picker is immutable; any number of goroutines may use one.
type Picker struct {
	ages  []float64 // age at each of ageSteps steps of the distribution, as a fraction of the set; ascending
	group uint64    // posts in a group, a power of two
	alias aliasTable
}

const (
	ageSteps     = 1024
	ageExponent  = 0.565
	ageTau       = 1.62 / 24 / 100 // as a fraction of the 100 days
	zipfExponent = 1.2
	maxGroup     = 4096
)

// NewPicker returns a Picker for about posts posts.
func NewPicker(posts int) *Picker {
	p := &Picker{ages: make([]float64, ageSteps+1)}
	oldest := 1 - math.Pow(1+1/ageTau, -ageExponent) // the part of the distribution within the set
	for i := range p.ages {
		u := oldest * float64(i) / ageSteps
		p.ages[i] = ageTau * (math.Pow(1-u, -1/ageExponent) - 1)
	}
	// A group is at most a 256th of the set, about 6 tau, or the groups would hide the ages.
	p.group = uint64(min(maxGroup, 1<<(bits.Len(uint(posts/256)|1)-1)))
	weights := make([]float64, p.group)
	for rank := range weights {
		weights[rank] = math.Pow(float64(rank+1), -zipfExponent)
	}
	p.alias = newAliasTable(weights)
	return p
}

// Source is a stream of random numbers.
type Source interface{ Uint64() uint64 }

// Pick returns the index of a post among n, of which the last is the newest. n must not be 0.
func (p *Picker) Pick(random Source, n int) int {
	stream := RNG{random.Uint64()}
	return p.PickFrom(&stream, n)
}

// PickFrom is Pick with a stream of its own kind: it makes no call through an interface.
func (p *Picker) PickFrom(random *RNG, n int) int {
	for {
		draw := random.Next()
		step := draw >> 54 // 10 bits choose the step, the next 54 the place in it
		young, old := p.ages[step], p.ages[step+1]
		age := (young + (old-young)*float64(draw<<10>>11)*0x1p-53) * float64(n)
		group := uint64(age) / p.group
		rank := p.alias.pick(random)
		// An odd factor makes this a permutation of the group; the offset differs from group to group.
		place := (rank*0x9e3779b1 + Mix(group)) & (p.group - 1)
		if back := group*p.group + place; back < uint64(n) {
			return n - 1 - int(back)
		}
	}
}

// aliasTable draws an index with given weights in constant time (Walker's method): each cell holds its own index up to
// a threshold, and one other index above it.
type aliasTable struct {
	threshold []uint32 // of 2^32
	other     []uint32
}

func newAliasTable(weights []float64) aliasTable {
	n := len(weights)
	t := aliasTable{threshold: make([]uint32, n), other: make([]uint32, n)}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	left := make([]float64, n) // the part of each index that is not yet in a cell; 1 fills a cell
	var small, large []int
	for i, w := range weights {
		left[i] = w / sum * float64(n)
		if left[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t.threshold[s] = uint32(left[s] * (1 << 32))
		t.other[s] = uint32(l)
		if left[l] -= 1 - left[s]; left[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) { // 1, but for rounding
		t.threshold[i] = math.MaxUint32
		t.other[i] = uint32(i)
	}
	return t
}

func (t aliasTable) pick(random *RNG) uint64 {
	draw := random.Next()
	hi, lo := bits.Mul64(draw, uint64(len(t.threshold)))
	if uint32(lo>>32) < t.threshold[hi] {
		return hi
	}
	return uint64(t.other[hi])
}
