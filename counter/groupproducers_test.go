// Scenario: the memory of numbered changes goes from one store to another without posts.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// TestRemember brings the memory of numbered changes from one store to another without posts: repeats are answered there, once and again,
// after a restart too. Records of posts, and groups that are not served, are refused.
func TestRemember(t *testing.T) {
	m := newMovers(t, rand.New(rand.NewPCG(3, 4)))
	source, destination := m.nodes[0], m.nodes[1]
	defer func() {
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}()
	const producers = 40
	for p := range producers {
		for seq := range 5 {
			if _, done := m.try(t, Op{Kind: OpAdd, Mid: uint64(10*p + seq), Arg: 1}, fmt.Sprintf("p%d %d", p, seq+1)); !done {
				t.Fatal("it was made before")
			}
		}
	}
	all := slot.AllGroups()
	pieces := source.s.Groups().Producers(all, 200)
	if len(pieces) < 5 {
		t.Fatalf("got %d pieces, want some", len(pieces))
	}
	entries := func() int { return int(destination.s.Admin().ProducerStats().Entries) }
	if _, err := destination.s.Groups().Remember(all, pieces[0]); err == nil {
		t.Error("groups of another store are remembered")
	}
	destination.s.Groups().Own(all)
	for range 2 {
		for _, piece := range pieces {
			if _, err := destination.s.Groups().Remember(all, piece); err != nil {
				t.Fatal(err)
			}
		}
		if got := entries(); got != 5*producers {
			t.Fatalf("%d entries are remembered, want %d", got, 5*producers)
		}
	}
	x, err := source.s.Groups().Export(all)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, _, err := x.Rows(nil, ExportPlace{})
	if err := errors.Join(err, x.Close()); err != nil || len(rows) == 0 {
		t.Fatalf("got %d bytes of rows, %v", len(rows), err)
	}
	flush := format.AppendFlush(nil)
	for name, records := range map[string][]byte{"rows": rows, "a flush": flush, "half a record": pieces[0][:len(pieces[0])-1]} {
		if _, err := destination.s.Groups().Remember(all, records); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, format.ErrCorrupt)
		}
	}
	close1(t, destination.s)
	destination.open(t)
	if got := entries(); got != 5*producers {
		t.Errorf("after a restart %d entries are remembered, want %d", got, 5*producers)
	}
}

// TestRememberBesideExport: memory that is added while its groups are copied to another store goes there too, and so do the
// numbers that have expired. Otherwise their repeats would count there.
func TestRememberBesideExport(t *testing.T) {
	m := newMovers(t, rand.New(rand.NewPCG(5, 6)))
	source, destination := m.nodes[0], m.nodes[1]
	defer func() {
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}()
	all := slot.AllGroups()
	x, err := source.s.Groups().Export(all)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	i, err := destination.s.Groups().Import("m", all)
	if err != nil {
		t.Fatal(err)
	}
	memory := format.AppendDefine(nil, 3, 1, 0, []byte("p"))
	memory = format.AppendOnce(memory, 3, 200, 7, 9, format.Result{Kind: format.ResultInt, N: 5})
	memory = format.AppendFloor(memory, 3, 150)
	if _, err := source.s.Groups().Remember(all, memory); err != nil {
		t.Fatal(err)
	}
	if err := source.s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	records, _, _, err := x.Log(nil, x.From(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Apply(records); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*moverNode{source, destination} {
		got := n.s.data.Producers.Table.List(2)
		if len(got) != 1 || got[0].Entries != 1 || got[0].Floor != 150 {
			t.Errorf("got %+v, want a producer with one entry that has forgotten all numbers below 150", got)
		}
	}
}
