// Scenario: the memory of numbered changes goes from one store to another without posts.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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

// TestIdleProducersTakeNoPlace: a store with few places for producers takes groups over from a store whose producers were idle for longer than their places are kept. One of
// these goes on during the move: its change comes, too. Producers that were not idle come with their numbers, and where these have no place the groups do not come.
func TestIdleProducersTakeNoPlace(t *testing.T) {
	now := time.Unix(1_795_000_000, 0)
	m := newMovers(t, rand.New(rand.NewPCG(7, 8)), func(o *Options) {
		o.Producers, o.Now = ProducerLimits{Producers: 4, MinIdle: 60}, func() time.Time { return now }
	})
	source, destination := m.nodes[0], m.nodes[1]
	defer func() {
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}()
	destination.s.Admin().SetProducerLimits(ProducerLimits{Producers: 3, MinIdle: 60})
	made := func(key string) {
		t.Helper()
		if _, done := m.try(t, Op{Kind: OpAdd, Mid: 7, Arg: 1}, key); !done || m.full {
			t.Fatalf("%s: it was made before, or has no place", key)
		}
	}
	for _, key := range []string{"idle0 1", "idle1 1", "idle2 1"} {
		made(key)
	}
	now = now.Add(90 * time.Second)
	made("active 1")
	all := slot.AllGroups()
	bring := func() (*GroupExport, *GroupImport, error) {
		t.Helper()
		x, err := source.s.Groups().Export(all)
		if err != nil {
			t.Fatal(err)
		}
		i, err := destination.s.Groups().Import("m", all)
		if err != nil {
			t.Fatal(err)
		}
		records, _, err := x.Producers(0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = i.Apply(records)
		return x, i, err
	}
	numbers := func() string {
		text := ""
		for _, p := range destination.s.data.Producers.Table.List(9) {
			text += fmt.Sprint(" ", p.ID, " ", p.Numbers)
		}
		return text
	}
	x, i, err := bring()
	if err != nil || numbers() != " active 1" {
		t.Fatalf("got%s, and %v, want the active producer alone", numbers(), err)
	}
	made("idle1 2")
	records, _, _, err := x.Log(nil, x.From(), 1<<20)
	if err == nil {
		_, _, err = i.Apply(records)
	}
	if err != nil || numbers() != " active 1 idle1 1" && numbers() != " idle1 1 active 1" {
		t.Fatalf("got%s, and %v, want the producer that has gone on, too", numbers(), err)
	}
	for _, key := range []string{"idle0 2", "idle2 2"} {
		made(key)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x, _, err = bring()
	if full := (*ProducersFullError)(nil); !errors.As(err, &full) {
		t.Errorf("four active producers, and three places: got %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
