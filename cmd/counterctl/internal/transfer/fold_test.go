package transfer

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// state is the values of numbers. Absent numbers have none.
type state map[[2]uint64]int64

// apply makes the change of an item.
func (s state) apply(i mapping.Item) {
	k := [2]uint64{i.Mid, uint64(i.Column)}
	switch i.Op {
	case mapping.Set:
		s[k] = i.Value
	case mapping.Add:
		s[k] = clampedSum(s[k], i.Value)
	case mapping.Delete:
		delete(s, k)
	}
}

// TestFold: the folded items have the effect of all items, whatever the values before, and are sorted, one
// for each number.
func TestFold(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var f folder
	for round := range 2000 {
		before, after, folded := state{}, state{}, state{}
		for range rng.IntN(8) {
			before.apply(mapping.Item{Mid: rng.Uint64N(4), Column: uint16(rng.IntN(2)), Value: rng.Int64N(100)})
		}
		for k, v := range before {
			after[k], folded[k] = v, v
		}
		items := make([]mapping.Item, rng.IntN(30))
		for i := range items {
			items[i] = mapping.Item{Mid: rng.Uint64N(4), Column: uint16(rng.IntN(2)), Op: mapping.Op(rng.IntN(3)), Value: rng.Int64N(100)}
			if items[i].Op == mapping.Add {
				items[i].Value -= 50
			}
			after.apply(items[i])
		}
		list := f.fold(items)
		for n, i := range list {
			if n > 0 && (list[n-1].Mid > i.Mid || list[n-1].Mid == i.Mid && list[n-1].Column >= i.Column) {
				t.Fatalf("seed %d, round %d: %v behind %v", seed, round, i, list[n-1])
			}
			folded.apply(i)
		}
		for mid := range uint64(4) {
			for column := range uint64(2) {
				k := [2]uint64{mid, column}
				a, inA := after[k]
				b, inB := folded[k]
				if a != b || inA != inB {
					t.Fatalf("seed %d, round %d: %v is %d (%v), want %d (%v), of %v", seed, round, k, b, inB, a, inA, items)
				}
			}
		}
	}
}

// TestFoldLimits: sums end at the ends of their range.
func TestFoldLimits(t *testing.T) {
	const most = 1<<63 - 1
	for _, test := range [][3]int64{{most, 1, most}, {-most, -most, -most - 1}, {most, -1, most - 1}, {-5, 5, 0}} {
		if got := clampedSum(test[0], test[1]); got != test[2] {
			t.Errorf("%d + %d = %d, want %d", test[0], test[1], got, test[2])
		}
	}
}
