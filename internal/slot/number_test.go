package slot

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestNumber compares numbers with ids, one by one near where something changes, and at random: they rise with the ids
// of a group, each is of one post, and is found again.
func TestNumber(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const end = uint64(1) << 63
	starts := []uint64{0, 990_000, 19089000000, 1<<32 - 15_000, end - 30_000}
	for range 3 {
		starts = append(starts, rng.Uint64N(1<<(10+rng.IntN(53))))
	}
	for _, start := range starts {
		last := [Groups]uint64{}
		seen := [Groups]bool{}
		for mid := start; mid < start+30_000; mid++ {
			group, n := Group(mid), Number(mid)
			if got := Post(group, n); got != mid {
				t.Fatalf("%d: Post(%d, %d) is %d", mid, group, n, got)
			}
			if seen[group] && n <= last[group] {
				t.Fatalf("%d: number %d behind %d", mid, n, last[group])
			}
			if got := NumberFrom(group, mid); got != n {
				t.Fatalf("%d: NumberFrom is %d, want %d", mid, got, n)
			}
			seen[group], last[group] = true, n
		}
	}
	for range 20_000 {
		mid := rng.Uint64N(end) >> rng.IntN(60)
		group := uint8(rng.IntN(Groups))
		n, least := NumberFrom(group, mid), Least(group, mid)
		if least < mid || Group(least) != group {
			t.Fatalf("the least of group %d from %d is %d", group, mid, least)
		}
		if got := Number(least); got < n {
			t.Fatalf("the least of group %d from %d is %d, number %d, want %d at least", group, mid, least, got, n)
		}
		for below := mid; below > 0 && below+3000 > mid; {
			if below--; Group(below) == group {
				if got := Number(below); got >= n {
					t.Fatalf("%d of group %d has number %d, and from %d on %d is the lowest", below, group, got, mid, n)
				}
				break
			}
		}
	}
	for group := range Groups {
		if n := len(lists[group]); n > perPrefix || n < 1 {
			t.Errorf("class %d has %d", group, n)
		}
		if n := len(firsts[group]); n > perPrefix || n < 1 {
			t.Errorf("group %d has %d first posts", group, n)
		}
	}
}

func BenchmarkNumber(b *testing.B) {
	sum := uint64(0)
	for i := range b.N {
		sum += Number(19089006004 + uint64(i)*4001)
	}
	sink = uint8(sum)
}

func BenchmarkPost(b *testing.B) {
	sum := uint64(0)
	for i := range b.N {
		sum += Post(uint8(i), 93539129+uint64(i)*17)
	}
	sink = uint8(sum)
}
