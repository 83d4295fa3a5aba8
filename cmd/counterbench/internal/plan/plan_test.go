package plan

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestLayout(t *testing.T) {
	p := Default()
	l := p.newLayout(40)
	if len(l.members) != 256 {
		t.Fatalf("got %d shards, want as many as groups", len(l.members))
	}
	perRack := make([]int, p.Racks)
	for s, members := range l.members {
		racks := map[int]bool{}
		for _, n := range members {
			if l.nodes[n].shard != s {
				t.Fatalf("node %d is of shard %d, want %d", n, l.nodes[n].shard, s)
			}
			racks[l.rack(n)] = true
			perRack[l.rack(n)]++
		}
		if len(members) != 3 || len(racks) != 3 {
			t.Fatalf("shard %d: %d members in %d racks, want 3 in 3", s, len(members), len(racks))
		}
	}
	for rack, n := range perRack {
		if n < 30 || n > 47 { // 768 copies on 20 racks
			t.Errorf("rack %d has %d copies, want about 38", rack, n)
		}
	}
}

// TestRackFailure counts what must be there whatever the seed: one promotion and one history a lost primary, one
// shrinking a lost replica, each node's lease.
func TestRackFailure(t *testing.T) {
	for seed := range uint64(20) {
		p := Default()
		p.Seed = seed
		l := p.newLayout(40)
		c, err := p.Control(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, withLeader := range []bool{false, true} {
			f := p.RackFailure(l, c, int(seed)%p.Racks, withLeader)
			if f.Nodes != 50 || len(f.Outage) != f.Primaries || len(f.Held) != f.Replicas || f.Primaries+f.Replicas > f.Nodes {
				t.Fatalf("seed %d: %d nodes, %d of %d shards promoted, %d of %d shrunk", seed, f.Nodes, len(f.Outage), f.Primaries, len(f.Held), f.Replicas)
			}
			// Each promotion: its transaction, its history, what two members say.
			if want := f.Nodes + f.Primaries*4 + f.Replicas + f.Lost; f.Txns != want {
				t.Errorf("seed %d: got %d transactions, want %d", seed, f.Txns, want)
			}
			least, most := p.NodeTimeout*2/3, p.NodeTimeout+time.Second
			if withLeader {
				least, most = least+p.EtcdElection, most+p.EtcdElection+time.Second
			}
			if f.Primaries > 0 && (f.Outage[0] < least || at(f.Outage, 1) > most) {
				t.Errorf("seed %d, leader %t: outages from %v to %v, want %v to %v", seed, withLeader, f.Outage[0], at(f.Outage, 1), least, most)
			}
			if f.Replicas > 0 && (f.Held[0] < p.SlowLimit || at(f.Held, 1) > p.SlowLimit+p.EtcdElection) {
				t.Errorf("seed %d: changes held from %v to %v", seed, f.Held[0], at(f.Held, 1))
			}
		}
	}
}

// TestMaxMin has shares that can be told by hand.
func TestMaxMin(t *testing.T) {
	flows := []*flow{{from: 0, to: 1}, {from: 0, to: 2}, {from: 3, to: 2}, {from: 3, to: 4}}
	got := maxMin(flows, 5, 10)
	for i, want := range []float64{5, 5, 5, 5} {
		if math.Abs(got[i]-want) > 1e-6 {
			t.Errorf("flow %d: got %g, want %g", i, got[i], want)
		}
	}
	flows = []*flow{{from: 0, to: 1}, {from: 0, to: 1}, {from: 0, to: 2}, {from: 3, to: 2}}
	got = maxMin(flows, 4, 9)
	for i, want := range []float64{3, 3, 3, 6} {
		if math.Abs(got[i]-want) > 1e-6 {
			t.Errorf("flow %d: got %g, want %g", i, got[i], want)
		}
	}
}

func TestRecover(t *testing.T) {
	p := Default()
	l := p.newLayout(40)
	lost := 0
	for _, n := range l.nodes {
		if n.machine == 7 && n.shard >= 0 {
			lost++
		}
	}
	r := p.Recover(l, func(m int) bool { return m == 7 })
	if r.Copies != lost || r.Sources < lost/3 || r.Targets < lost/2 {
		t.Errorf("%d copies from %d machines to %d, want %d spread out", r.Copies, r.Sources, r.Targets, lost)
	}
	alone := time.Duration(p.dataBytes() / 256 / 5e8 * float64(time.Second))
	if r.Longest < alone-time.Millisecond || r.Longest > 10*alone {
		t.Errorf("took %v, one copy alone %v", r.Longest, alone)
	}
	all := p.Recover(l, func(m int) bool { return m%20 == 3 })
	if all.Copies <= r.Copies || all.Longest < r.Longest {
		t.Errorf("a rack: %+v, a machine: %+v", all, r)
	}
}

func TestResources(t *testing.T) {
	p := Default()
	ours := p.Counterd()
	low, high := p.Redis()
	if want := 3 * 1e10 * 5.5 * 1.1; math.Abs(ours.RAM-want-1000*p.ProcessRAM) > 1 {
		t.Errorf("got %g of memory, want %g and the nodes' own", ours.RAM, want)
	}
	if want := 3 * 1e11 * 80 * 1.66; math.Abs(low.RAM-want) > want*1e-9 {
		t.Errorf("Redis: got %g of memory, want %g", low.RAM, want)
	}
	if ours.Machines >= low.Machines || low.Machines >= high.Machines {
		t.Errorf("machines: %d, %d, %d", ours.Machines, low.Machines, high.Machines)
	}
	p.Posts, p.Increments, p.Pages, p.Nodes = 1e6, 1000, 0, 3
	if r := p.Counterd(); r.Machines != 3 || r.Limit != "copies" {
		t.Errorf("a small cluster: %+v, want a machine a copy", r)
	}
}

func TestReport(t *testing.T) {
	var b strings.Builder
	p := Default()
	if err := p.Report(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"256 shards of 3 copies, 232 free", "A rack goes dark, with etcd's leader", "a dead machine", "Redis Cluster, 240 B a post", "Assumed: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	p.Copies, p.Racks, p.Increments = 0, -1, math.NaN()
	err := p.Report(&b)
	for _, want := range []string{"got 0 copies", "got -1 racks", "increments: got NaN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for _, nodes := range []int{1, 2, 3, 7, 100} { // small ones are no special case
		p = Default()
		p.Nodes, p.Copies, p.Racks = nodes, min(3, nodes), min(3, nodes)
		if err := p.Report(&b); err != nil {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
}
