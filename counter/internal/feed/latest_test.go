package feed

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestLatest merges random changes, and applies the result to a copy that has half of them already: both ways lead to the
// same posts. The old values are those before the first change of a post.
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
		olds := oldWants{}
		n := rng.IntN(40)
		for i := range n {
			c := Change{Position: Position{Frame: uint64(i + 1)}}
			for range 1 + rng.IntN(3) {
				p := Part{Kind: Set, Counter: def, Mid: rng.Uint64N(6), Values: []Value{{rng.IntN(3), rng.Uint64N(9)}}}
				if rng.IntN(4) == 0 {
					p.Kind, p.Values = Del, nil
				}
				row, there := straight[p.Mid]
				if p.Old = oldOf(row, there, &p); rng.IntN(8) == 0 {
					p.Old = Old{}
				}
				olds.add(&p, row, there)
				c.Parts = append(c.Parts, p)
				apply(straight, &Change{Parts: []Part{p}})
			}
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
				olds.check(t, &p)
			}
			seen += len(posts)
			apply(merged, c)
		})
		if seen != l.Len() || fmt.Sprint(straight) != fmt.Sprint(merged) {
			t.Fatalf("%d posts: got %v, want %v", seen, merged, straight)
		}
	}
}

// oldOf has the values before a part, of a post that has row.
func oldOf(row map[int]uint64, there bool, p *Part) Old {
	o := Old{Told: true, There: there}
	if !there {
		return o
	}
	if p.Kind == Del {
		return Old{Told: true, There: true, Values: []Value{{0, row[0]}, {1, row[1]}, {2, row[2]}}}
	}
	for _, v := range p.Values {
		o.Values = append(o.Values, Value{v.Column, row[v.Column]})
	}
	return o
}

// oldWants are the posts as they were before their first changes.
type oldWants map[uint64]*oldWant

type oldWant struct {
	told, there, deleted bool
	row                  map[int]uint64
	columns              map[int]bool // that the changes up to the first deletion have set
}

// add takes a change of a post that has row.
func (w oldWants) add(p *Part, row map[int]uint64, there bool) {
	want := w[p.Mid]
	if want == nil {
		want = &oldWant{told: true, there: there, row: maps.Clone(row), columns: map[int]bool{}}
		want.told = p.Old.Told
		w[p.Mid] = want
	}
	if want.deleted {
		return
	}
	want.told = want.told && (p.Old.Told || !want.there)
	for _, v := range p.Values {
		want.columns[v.Column] = true
	}
	if p.Kind == Del {
		want.deleted, want.columns = true, map[int]bool{0: true, 1: true, 2: true}
	}
}

// check compares a merged part with the post before.
func (w oldWants) check(t *testing.T, p *Part) {
	t.Helper()
	want := w[p.Mid]
	there := want.there && !(p.Kind == Set && want.deleted)
	if p.Old.Told != want.told || want.told && (p.Old.There != there || (len(p.Old.Values) > 0) != there) {
		t.Fatalf("%s of %d: old %+v, want %+v", p.Kind, p.Mid, p.Old, want)
	}
	if !want.told || !there {
		return
	}
	for _, v := range p.Old.Values {
		if !want.columns[v.Column] || v.Value != want.row[v.Column] {
			t.Fatalf("%s of %d: old %+v, want %+v", p.Kind, p.Mid, p.Old, want)
		}
	}
	if len(p.Old.Values) != len(want.columns) {
		t.Fatalf("%s of %d: old %+v, want %+v", p.Kind, p.Mid, p.Old, want)
	}
}
