package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/counterd/counterd/internal/slot"
)

// Place makes shards of nodes: of each, the first leads and the others are its replicas, in zones and on hosts of their
// own as far as there are such. The nodes are taken in the order given where nothing else decides; those left over stay
// free.
func Place(nodes []*Node, shards, replicas int) ([][]NodeID, error) {
	if shards < 1 || shards > slot.Groups || replicas < 0 {
		return nil, fmt.Errorf("got %d shards of %d replicas, want 1 to %d, and not below 0", shards, replicas, slot.Groups)
	}
	if want := shards * (1 + replicas); len(nodes) < want {
		return nil, fmt.Errorf("got %d nodes, want %d: %d shards of a primary and %d replicas", len(nodes), want, shards, replicas)
	}
	left := slices.Clone(nodes)
	taken := make([][]*Node, shards)
	for round := range 1 + replicas {
		for s := range taken {
			// From the zone and the host that have most nodes left: if rare ones were taken first, none would be left for
			// the last shard.
			best := slices.MaxFunc(left, func(a, b *Node) int {
				return cmp.Or(cmp.Compare(apart(taken[s], a), apart(taken[s], b)),
					cmp.Compare(count(left, a, zone), count(left, b, zone)),
					cmp.Compare(count(left, a, host), count(left, b, host)),
					// Primaries are spread too.
					cmp.Compare(leads(taken, b, round), leads(taken, a, round)))
			})
			taken[s] = append(taken[s], best)
			left = slices.DeleteFunc(left, func(n *Node) bool { return n == best })
		}
	}
	list := make([][]NodeID, shards)
	for s, nodes := range taken {
		for _, n := range nodes {
			list[s] = append(list[s], n.ID)
		}
	}
	return list, nil
}

func zone(n *Node) string { return n.Zone }
func host(n *Node) string { return n.Host }

func count(nodes []*Node, as *Node, of func(*Node) string) (k int) {
	for _, n := range nodes {
		if of(n) == of(as) {
			k++
		}
	}
	return k
}

// apart is how far a node is from those of a shard: 0 on a host of theirs, 1 in a zone of theirs, 2 in another.
func apart(shard []*Node, n *Node) int {
	d := 2
	for _, other := range shard {
		switch {
		case other.Host == n.Host && other.Zone == n.Zone:
			return 0
		case other.Zone == n.Zone:
			d = 1
		}
	}
	return d
}

// leads is how many primaries are on the node's host, in the round that chooses primaries.
func leads(taken [][]*Node, n *Node, round int) (k int) {
	for _, shard := range taken {
		if round == 0 && len(shard) > 0 && shard[0].Host == n.Host {
			k++
		}
	}
	return k
}

// Apart tells how a shard's nodes stand: 2 in zones of their own, 1 on hosts of their own, 0 if two share a host.
func Apart(nodes []*Node) int {
	d := 2
	for i, n := range nodes {
		d = min(d, apart(nodes[:i], n))
	}
	return d
}

// Deal deals all groups to shards, in neighbouring ranges whose lengths differ by one at most.
func Deal(shards int) []slot.Set {
	list := make([]slot.Set, shards)
	for g := range slot.Groups {
		list[g*shards/slot.Groups].Add(uint8(g))
	}
	return list
}
