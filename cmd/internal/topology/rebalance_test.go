package topology

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// planMap is a map of shards that own groups dealt as owner says.
func planMap(t *testing.T, shards int, owner func(g int) int) *Map {
	t.Helper()
	groups := make([]slot.Set, shards)
	for g := range 256 {
		groups[owner(g)].Add(uint8(g))
	}
	var c Change
	for i, g := range groups {
		c.Set(ShardKey(ShardID(i+1)), 0, Shard{ID: ShardID(i + 1), InSync: []NodeID{nodeID(i)}, Groups: g})
	}
	for i := range c.Put {
		c.Put[i].Revision = 1
	}
	m, err := NewMap(1, c.Put)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func equal() *Weights {
	w := &Weights{}
	for g := range w.Bytes {
		w.Bytes[g] = 1
	}
	return w
}

// TestPlanNewShard gives a new shard its part, of equal groups: not one more moves than must, and all to it.
func TestPlanNewShard(t *testing.T) {
	for shards := 1; shards < 20; shards++ {
		m := planMap(t, shards+1, func(g int) int { return g * shards / 256 })
		list, _ := PlanMoves(m, equal(), nil, 0)
		moved := 0
		for _, tr := range list {
			if tr.To != ShardID(shards+1) {
				t.Fatalf("%d shards: %+v goes not to the new one", shards, tr)
			}
			moved += tr.Groups.Len()
		}
		if want := 256 / (shards + 1); moved != want {
			t.Errorf("%d shards: got %d groups moved, want %d", shards, moved, want)
		}
		if again, _ := PlanMoves(apply(t, m, list), equal(), nil, 0.05); shards < 10 && len(again) != 0 {
			t.Errorf("%d shards: got %+v behind the plan, want nothing more to do", shards, again)
		}
	}
}

// TestPlanRanges takes a shard away: its groups go to the others in one range each.
func TestPlanRanges(t *testing.T) {
	for shards := 2; shards < 20; shards++ {
		m := planMap(t, shards, func(g int) int { return g * shards / 256 })
		list, _ := PlanMoves(m, equal(), map[ShardID]bool{1: true}, 1)
		moved := 0
		for _, tr := range list {
			if tr.From != 1 || len(tr.Groups.Ranges()) != 1 {
				t.Errorf("%d shards: got %+v, want one range of shard 1", shards, tr)
			}
			moved += tr.Groups.Len()
		}
		if moved != m.Shard(1).Groups.Len() {
			t.Errorf("%d shards: got %d groups moved", shards, moved)
		}
	}
}

func apply(t *testing.T, m *Map, list []Transfer) *Map {
	t.Helper()
	return planMap(t, len(m.Shards), func(g int) int {
		for _, tr := range list {
			if tr.Groups.Has(uint8(g)) {
				return int(tr.To) - 1
			}
		}
		return int(m.Owner(uint8(g)).ID) - 1
	})
}

// TestPlanRandom wants of plans for random shards and weights: balance as far as whole groups allow, each group from its
// owner, once; nothing for a balanced map; the shards that go empty.
func TestPlanRandom(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	worst := 0.0
	for run := range 300 {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		shards := 2 + rng.IntN(12)
		skew := rng.IntN(3)
		m := planMap(t, shards, func(g int) int { return rng.IntN(shards - rng.IntN(2)) })
		w := &Weights{}
		loads := [256]float64{}
		for g := range 256 {
			w.Bytes[g] = 1 + rng.Float64()
			if loads[g] = rng.Float64(); skew == 1 {
				loads[g] = math.Exp(3 * rng.NormFloat64())
			}
		}
		if skew > 0 {
			w.Loads = &loads
		}
		without := map[ShardID]bool{}
		if rng.IntN(3) == 0 {
			without[ShardID(1+rng.IntN(shards))] = true
		}
		const tolerance = 0.03
		list, balance := PlanMoves(m, w, without, tolerance)
		heaviest, total := 0.0, 0.0
		for g := range 256 {
			heaviest, total = max(heaviest, w.load(g)), total+w.load(g)
		}
		mean := total / float64(shards-len(without))
		var seen slot.Set
		bytes := 0.0
		for _, tr := range list {
			if both := tr.Groups.Both(seen); !both.Empty() || tr.Groups.Empty() || without[tr.To] {
				t.Fatalf("run %d: %+v", run, tr)
			}
			if rest := tr.Groups.Minus(m.Shard(tr.From).Groups); !rest.Empty() {
				t.Fatalf("run %d: %+v: the source does not own %s", run, tr, rest)
			}
			seen = seen.Union(tr.Groups)
			bytes += tr.Bytes
		}
		after := apply(t, m, list)
		for _, s := range after.Shards {
			sum := 0.0
			for _, g := range s.Groups.List() {
				sum += w.load(g)
			}
			if math.Abs(sum-balance.After[s.ID]) > 1e-6*total {
				t.Fatalf("run %d: shard %d has %g, want what the plan says: %g", run, s.ID, sum, balance.After[s.ID])
			}
			switch {
			case without[s.ID] && !s.Groups.Empty():
				t.Fatalf("run %d: shard %d is left with %s", run, s.ID, s.Groups)
			case !without[s.ID] && sum > mean+max(tolerance*mean, heaviest):
				t.Fatalf("run %d: shard %d has %g, want about %g, the heaviest group is %g", run, s.ID, sum, mean, heaviest)
			}
		}
		// By bytes, the groups above the mean must move.
		if w.Loads == nil {
			must := 0.0
			for id, load := range balance.Before {
				if without[id] {
					must += load
				} else {
					must += max(0, load-mean*(1+tolerance))
				}
			}
			if extra := (bytes - must) / total; extra > worst {
				worst = extra
			}
		}
		if again, b := PlanMoves(after, w, without, tolerance); len(again) > 0 {
			most, _ := Spread(balance.After, without)
			if now, _ := Spread(b.After, without); now > most*(1+1e-9) {
				t.Fatalf("run %d: planning again makes it worse: %g from %g", run, now, most)
			}
		}
	}
	t.Logf("at most %.1f %% of all bytes more than must be", 100*worst)
	if worst > 0.15 {
		t.Errorf("%.1f %% of all bytes are moved that need not be", 100*worst)
	}
}

// TestPlanMoving counts moving groups at their destination, and leaves them alone.
func TestPlanMoving(t *testing.T) {
	m := planMap(t, 2, func(g int) int { return g / 192 })
	var c Change
	var half slot.Set
	for g := range 64 {
		half.Add(uint8(g))
	}
	c.Set(MoveKey("m"), 0, Move{ID: "m", From: 1, To: 2, Groups: half, State: MoveCopying})
	m, err := m.Apply(c)
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := PlanMoves(m, equal(), nil, 0); len(list) != 0 {
		t.Errorf("got %+v, want nothing: 64 groups are on their way", list)
	}
}

func TestPlace(t *testing.T) {
	nodes := func(spec ...string) (list []*Node) {
		for i, s := range spec {
			var n Node
			fmt.Sscanf(s, "%s %s", &n.Zone, &n.Host)
			n.ID = nodeID(i)
			list = append(list, &n)
		}
		return list
	}
	for _, c := range []struct {
		nodes            []*Node
		shards, replicas int
		apart            int
	}{
		{nodes("a h1", "a h1", "b h2", "b h2", "c h3", "c h3"), 2, 2, 2},
		{nodes("a h1", "a h2", "a h3", "b h4", "b h5", "b h6"), 3, 1, 2},
		{nodes("a h1", "b h2", "b h3", "b h4"), 2, 1, 1}, // only one can be in zone a
		{nodes("- h1", "- h1", "- h2", "- h2"), 2, 1, 1},
		{nodes("- h1", "- h1", "- h1", "- h1"), 2, 1, 0},
		{nodes("a h1", "b h1", "c h1"), 1, 2, 2},
		{nodes("a h1", "a h1", "a h1", "b h2", "b h2", "c h3", "c h3", "b h2", "c h3"), 3, 2, 2},
	} {
		list, err := Place(c.nodes, c.shards, c.replicas)
		if err != nil {
			t.Fatal(err)
		}
		worst, seen := 2, map[NodeID]bool{}
		for _, ids := range list {
			var shard []*Node
			for _, id := range ids {
				if seen[id] {
					t.Fatalf("%v: %s twice", list, id)
				}
				seen[id] = true
				shard = append(shard, c.nodes[slices.IndexFunc(c.nodes, func(n *Node) bool { return n.ID == id })])
			}
			if len(shard) != 1+c.replicas {
				t.Fatalf("got %v", list)
			}
			worst = min(worst, Apart(shard))
		}
		if len(list) != c.shards || worst != c.apart {
			t.Errorf("got %v, apart %d, want %d shards apart %d", list, worst, c.shards, c.apart)
		}
		hosts := map[string]int{}
		for _, ids := range list {
			hosts[c.nodes[slices.IndexFunc(c.nodes, func(n *Node) bool { return n.ID == ids[0] })].Host]++
		}
		t.Log(list, hosts)
	}
	for _, c := range [][3]int{{5, 2, 2}, {5, 0, 1}, {5, 257, 0}, {5, 1, -1}} {
		if _, err := Place(nodes("a h", "a h", "a h", "a h", "a h")[:c[0]], c[1], c[2]); err == nil {
			t.Errorf("%v: got no error", c)
		}
	}
	for shards := 1; shards <= 256; shards++ {
		var all slot.Set
		for _, g := range Deal(shards) {
			if g.Len() != 256/shards && g.Len() != 256/shards+1 || len(g.Ranges()) != 1 {
				t.Fatalf("%d shards: one has %s", shards, g)
			}
			all = all.Union(g)
		}
		if all != slot.AllGroups() {
			t.Fatalf("%d shards: %s are dealt", shards, all)
		}
	}
}
