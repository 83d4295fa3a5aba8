// Scenario: columns that decay, among those that count in windows.

package counter

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/decay"
	"github.com/counterd/counterd/schema"
)

// decay adds to the columns that decay.
func (p *windowPost) decay(at int64, counts func(of *schema.Derived) uint64) {
	for i := range p.def.Derived {
		if of := &p.def.Derived[i]; of.Decays() {
			p.sums[i] = decay.At(at, of.HalfLife).Add(p.sums[i], counts(of))
		}
	}
}

// worth is about the value of a column that decays, of all additions.
func (p *windowPost) worth(of *schema.Derived, now int64) (sum float64) {
	for _, src := range of.Sources {
		for _, a := range p.added[src.At] {
			sum += float64(src.Weight*a.n) * math.Exp2(float64(a.at-now)/float64(of.HalfLife))
		}
	}
	return sum
}

// tops asks for the posts with the largest values of derived columns, as lists have them.
func (p *windowPlay) tops(s *Store, def *schema.Counter, rows map[uint64][]uint64) {
	p.t.Helper()
	for i := range def.Derived {
		if of := &def.Derived[i]; of.Decays() || of.Top > 0 {
			k, col := 1+p.rng.IntN(30), len(def.Columns)+i
			var want, got []string
			mids := slices.SortedFunc(maps.Keys(rows), func(a, b uint64) int {
				sum := func(mid uint64) uint64 {
					if rows[mid][col] == 0 {
						return 0
					}
					if !of.Decays() {
						return rows[mid][col]
					}
					return p.m.posts[def.Name][mid].sums[i]
				}
				return cmp.Or(cmp.Compare(sum(b), sum(a)), cmp.Compare(b, a))
			})
			for _, mid := range mids[:min(k, len(mids))] {
				want = append(want, fmt.Sprint(mid, rows[mid][col]))
			}
			top, err := s.Top(Query{Counter: def, To: schema.MaxMid}, int16(col), k)
			if err != nil {
				p.t.Fatal(err)
			}
			for n := range top.Len() {
				mid, values := top.At(n)
				got = append(got, fmt.Sprint(mid, values[0]))
			}
			if !slices.Equal(got, want) {
				p.t.Fatalf("%s: the top %d of %s is %v, want %v", def.Name, k, of.Name, got, want)
			}
		}
	}
}

// spaceRows are the items of a space.
func spaceRows(t testing.TB, s *Store, of *schema.Derived) map[uint64]string {
	rows := map[uint64]string{}
	for _, ks := range s.data.Spaces[of.Space.ID] {
		for _, blk := range ks.Dir.Load().Blocks {
			blk.Tab.Each(func(mid uint64, ref hot.Ref) {
				row, err := ks.AppendRow(nil, blk, mid, block.Location{Where: block.InTable, Ref: ref})
				if err != nil {
					t.Fatal(err)
				}
				rows[mid] = fmt.Sprint(row)
			})
		}
	}
	return rows
}

// sameSpaces sees that two stores have the same items in all spaces.
func sameSpaces(t testing.TB, a, b *Store) {
	t.Helper()
	for _, def := range a.Schema().Counters() {
		for i := range def.Derived {
			if x, y := spaceRows(t, a, &def.Derived[i]), spaceRows(t, b, &def.Derived[i]); !maps.Equal(x, y) {
				t.Fatalf("%s: %v and %v", def.Derived[i].Space.Name, x, y)
			}
		}
	}
}

// nearly compares the columns of a post that decay with all of its additions, by floating-point numbers.
func (p *windowPlay) nearly(def *schema.Counter, mid uint64, q *windowPost, row []uint64) {
	p.t.Helper()
	for i := range def.Derived {
		if of := &def.Derived[i]; of.Decays() {
			got, exact := float64(row[len(def.Columns)+i]), q.worth(of, p.m.time)
			if diff := math.Abs(got - exact); diff > 0.52+exact/1e6 { // it may have faded
				p.t.Fatalf("%s %d: %s is %v, want %v", def.Name, mid, of.Name, got, exact)
			}
		}
	}
}
