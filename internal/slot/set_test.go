package slot

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

func TestSet(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		var s Set
		model := map[uint8]bool{}
		for range rng.IntN(300) {
			g := uint8(rng.UintN(256))
			if rng.IntN(3) == 0 {
				s.Remove(g)
				delete(model, g)
			} else {
				s.Add(g)
				model[g] = true
			}
		}
		if s.Len() != len(model) || s.Empty() != (len(model) == 0) {
			t.Fatalf("%v: got %d groups, want %d", s, s.Len(), len(model))
		}
		for g := range 256 {
			if s.Has(uint8(g)) != model[uint8(g)] {
				t.Fatalf("%v: group %d", s, g)
			}
		}
		back, err := ParseSet(s.String())
		if err != nil || back != s {
			t.Fatalf("%q: got %v, %v", s, back, err)
		}
		all := AllGroups()
		if rest := all.Minus(s); rest.Union(s) != all || rest.Both(s) != (Set{}) {
			t.Fatalf("%v and the rest %v are not all", s, rest)
		}
	}
	for _, bad := range []string{"256", "3-1", "-", "1,,2", "a", "1-2-3"} {
		if s, err := ParseSet(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, s)
		}
	}
}
