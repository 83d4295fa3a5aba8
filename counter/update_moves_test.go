// Scenario: numbered updates, of which each store makes the part of its groups, meet moves of groups.

package counter

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// part makes a store's part of update number seq, for the groups that it owns, unless that was made. It returns "fresh", "made", or "doubt".
func part(t *testing.T, s *Store, seq uint64, makes bool) string {
	t.Helper()
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	owned := OwnedGroups(b)
	h := uint64(seq)
	for _, w := range owned {
		h = (h ^ w) * 0x9E3779B97F4A7C15
	}
	o := Once{Producer: []byte("p"), Seq: seq, Hash: UpdateHash(uint32(h >> 43))}
	answer := "made"
	switch {
	case b.TryOnce(&o):
		if answer = "fresh"; makes {
			b.KeepOnce(&o, Result{Kind: ResultInt, N: 7})
		}
	case errors.Is(o.Err, ErrMismatch):
		answer = "doubt"
	case o.Err != nil:
		t.Fatal(o.Err)
	case !o.Old && o.Result.N != 7:
		t.Errorf("the answer is %+v", o.Result)
	}
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	return answer
}

// bringing is a move of groups from the first store to the second.
type bringing struct {
	t   *testing.T
	m   *movers
	set slot.Set
	x   *GroupExport
	in  *GroupImport
	at  uint64 // of the log of the source
}

func newBringing(t *testing.T, m *movers, set slot.Set) *bringing {
	t.Helper()
	v := &bringing{t: t, m: m, set: set}
	var err error
	if v.x, err = m.nodes[0].s.Groups().Export(set); err != nil {
		t.Fatal(err)
	}
	if v.in, err = m.nodes[1].s.Groups().Import("m", set); err != nil {
		t.Fatal(err)
	}
	records, _, err := v.x.Producers(0, 1<<20)
	if err == nil {
		_, _, err = v.in.Apply(records)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.at = v.x.From()
	return v
}

// follow brings the records of the log of the source since.
func (v *bringing) follow() {
	v.t.Helper()
	for {
		records, next, end, err := v.x.Log(nil, v.at, 1<<20)
		if err == nil {
			_, _, err = v.in.Apply(records)
		}
		if err != nil {
			v.t.Fatal(err)
		}
		if v.at = next; next >= end {
			return
		}
	}
}

// commit gives the groups to the second store.
func (v *bringing) commit() {
	v.t.Helper()
	v.x.Close()
	from, to := v.m.nodes[0].s.Groups(), v.m.nodes[1].s.Groups()
	from.Own(from.Owned().Minus(v.set))
	if _, err := to.Accept("m", v.set); err != nil {
		v.t.Fatal(err)
	}
	to.Own(to.Owned().Union(v.set))
}

// abort has the second store forget the groups.
func (v *bringing) abort() {
	v.t.Helper()
	v.x.Close()
	if _, err := v.m.nodes[1].s.Groups().Drop("m", v.set); err != nil {
		v.t.Fatal(err)
	}
}

// TestUpdateMoves: a group takes along that its posts were changed by an update, whichever group it is. The store that it comes to does not make its part behind that, as
// it would change these posts a second time. While the group is on its way that does not count, and the own part of a store is not
// forgotten by a move that is aborted.
func TestUpdateMoves(t *testing.T) {
	home := slot.Group(0)                   // where numbers of updates are kept
	half := func(of uint8) (set slot.Set) { // the groups of the first store, or of the second
		for g := range slot.Groups {
			if uint8(g)>>7 == of {
				set.Add(uint8(g))
			}
		}
		return set
	}
	var one, homes slot.Set
	one.Add(3)
	homes.Add(home)
	for _, set := range []slot.Set{one, homes, one.Union(homes), half(0).Union(homes)} {
		for _, late := range []bool{false, true} { // the first store makes its part behind the beginning of the move
			m := newMovers(t, rand.New(rand.NewPCG(7, 8)))
			own := half(1).Minus(set)
			m.nodes[0].s.Groups().Own(half(0).Union(set))
			m.nodes[1].s.Groups().Own(own)
			want := func(node int, seq uint64, makes bool, want string) {
				t.Helper()
				if got := part(t, m.nodes[node].s, seq, makes); got != want {
					t.Fatalf("groups %s, late %v: update %d at store %d: %s, want %s", set, late, seq, node, got, want)
				}
			}
			var v *bringing
			if late {
				v = newBringing(t, m, set)
			}
			want(0, 1, true, "fresh")
			want(0, 2, true, "fresh")
			want(1, 2, true, "fresh")
			want(0, 3, true, "fresh")
			if !late {
				v = newBringing(t, m, set)
			}
			v.follow()
			want(0, 1, true, "made")
			want(1, 2, true, "made")
			if set.Has(home) { // the entries came as they are
				want(1, 1, false, "doubt")
			} else { // while the groups are on their way
				want(1, 1, false, "fresh")
				want(1, 3, true, "fresh")
				want(1, 3, true, "made")
			}
			v.abort()
			want(1, 2, true, "made")
			want(1, 1, false, "doubt") // the entry may speak of other groups
			if !set.Has(home) {
				want(1, 3, true, "made")
			}
			v = newBringing(t, m, set)
			v.follow()
			v.commit()
			for range 2 {
				for seq := range uint64(3) {
					want(1, seq+1, true, "doubt")
				}
				n := m.nodes[1]
				owned := n.s.Groups().Owned()
				close1(t, n.s)
				n.open(t)
				n.s.Groups().Own(owned)
			}
			want(1, 4, true, "fresh")
			// From there it goes on with any other group.
			m.nodes[0], m.nodes[1] = m.nodes[1], m.nodes[0]
			var other slot.Set
			other.Add(200)
			if m.nodes[0].s.Groups().Own(m.nodes[0].s.Groups().Owned().Union(other)); set.Has(200) {
				t.Fatal("the group came before")
			}
			close1(t, m.nodes[1].s)
			third := newMovers(t, rand.New(rand.NewPCG(9, 10)))
			m.nodes[1] = third.nodes[1]
			m.nodes[1].s.Groups().Own(slot.Set{})
			v = newBringing(t, m, other)
			v.follow()
			v.commit()
			for seq := range uint64(4) {
				want(1, seq+1, true, "doubt")
			}
			for _, s := range []*Store{m.nodes[0].s, m.nodes[1].s, third.nodes[0].s} {
				close1(t, s)
			}
		}
	}
}

// TestNumbersBesideUpdates: a numbered change of a post of the group where updates are kept has a hash that looks like an update's. Its repeat is answered wherever the group is, also where another
// group of the shard has moved before.
func TestNumbersBesideUpdates(t *testing.T) {
	home := slot.Group(0)
	mid := uint64(11)
	for ; slot.Group(mid) != home || UpdateHash(uint32(mid)) != uint32(mid); mid += 16 { // the hash that try takes
	}
	var one, homes slot.Set
	one.Add(3)
	homes.Add(home)
	for _, before := range []bool{false, true} {
		m := newMovers(t, rand.New(rand.NewPCG(11, 12)))
		all := slot.AllGroups()
		m.nodes[0].s.Groups().Own(all)
		m.nodes[1].s.Groups().Own(slot.Set{})
		clear(m.owner[:])
		if _, done := m.try(t, Op{Kind: OpAdd, Mid: mid, Arg: 5}, "q 1"); !done {
			t.Fatal("it was made before")
		}
		if before {
			v := newBringing(t, m, one)
			v.follow()
			v.commit()
		}
		v := newBringing(t, m, homes)
		v.follow()
		v.commit()
		m.owner[home] = 1
		if value, done := m.try(t, Op{Kind: OpAdd, Mid: mid, Arg: 5}, "q 1"); done {
			t.Errorf("behind a move before %v: the repeat is made again, and answered %d", before, value)
		}
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}
}
