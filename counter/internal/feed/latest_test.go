package feed

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestLatest merges random changes, and applies the result to a copy that has half of them already: both ways lead to the
// same posts.
func TestLatest(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	st, err := schema.ParseStatement([]string{"add", "counter", "a"})
	if err != nil {
		t.Fatal(err)
	}
	sch, err := schema.Empty().Apply(st)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y", "z"} {
		if st, err = schema.ParseStatement([]string{"add", "column", "a", name, "hint=8"}); err != nil {
			t.Fatal(err)
		}
		if sch, err = sch.Apply(st); err != nil {
			t.Fatal(err)
		}
	}
	def := sch.Counter("a")
	apply := func(posts map[uint64]map[int]uint64, c *Change) {
		for _, p := range c.Parts {
			if p.Kind == Del {
				delete(posts, p.Mid)
				continue
			}
			if posts[p.Mid] == nil {
				posts[p.Mid] = map[int]uint64{}
			}
			for _, v := range p.Values {
				posts[p.Mid][v.Column] = v.Value
			}
		}
	}
	for range 200 {
		var l Latest
		straight, merged := map[uint64]map[int]uint64{}, map[uint64]map[int]uint64{}
		n := rng.IntN(40)
		for i := range n {
			c := Change{Position: Position{Frame: uint64(i + 1)}}
			for range 1 + rng.IntN(3) {
				p := Part{Kind: Set, Counter: def, Mid: rng.Uint64N(6), Values: []Value{{rng.IntN(3), rng.Uint64N(9)}}}
				if rng.IntN(4) == 0 {
					p.Kind, p.Values = Del, nil
				}
				c.Parts = append(c.Parts, p)
			}
			apply(straight, &c)
			if i < n/2 {
				apply(merged, &c) // as if the consumer had it, and is told again
			}
			l.Add(&c)
			if rng.IntN(10) == 0 { // it may be asked between
				l.Each(func(*Change) {})
			}
		}
		last, seen := uint64(0), 0
		l.Each(func(c *Change) {
			if c.Position.Frame <= last { // a consumer that stops between two of one position loses the second
				t.Fatalf("a change at %d behind one at %d", c.Position.Frame, last)
			}
			last = c.Position.Frame
			posts := map[uint64]bool{}
			for _, p := range c.Parts {
				posts[p.Mid] = true
			}
			seen += len(posts)
			apply(merged, c)
		})
		if seen != l.Len() || fmt.Sprint(straight) != fmt.Sprint(merged) {
			t.Fatalf("%d posts: got %v, want %v", seen, merged, straight)
		}
	}
}
