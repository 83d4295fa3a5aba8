package core

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestLink compares the chains of operations with lists of them by group: of few groups, and of all of them over and over.
func TestLink(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	d := NewData(Config{Manual: true}, nil)
	defer d.Release(nil)
	b := d.NewBatch()
	for range 1000 {
		b.Reset()
		want := map[uint8][]int{}
		from, of, inTurn := rng.IntN(3), 1+rng.IntN(slot.Groups), rng.IntN(4) == 0
		for i := range from + 1 + rng.IntN(mostChained) {
			op := b.Next()
			if op.in = uint8(rng.IntN(of)); inTurn {
				op.in = uint8(i)
			}
			if i >= from {
				want[op.in] = append(want[op.in], i)
			}
		}
		c := &b.chains
		c.link(b, from, b.Len())
		got := map[uint8][]int{}
		for _, group := range c.groups[:c.n] {
			if got[group] != nil {
				t.Fatalf("group %d is there twice", group)
			}
			for j := c.first[group]; j > 0; j = c.next[j-1] {
				got[group] = append(got[group], from+int(j-1))
			}
		}
		for group := range slot.Groups {
			if !slices.Equal(got[uint8(group)], want[uint8(group)]) {
				t.Fatalf("%d operations from %d on: of group %d got %v, want %v", b.Len(), from, group, got[uint8(group)], want[uint8(group)])
			}
		}
	}
}
