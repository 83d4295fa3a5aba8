package plan

import "math/rand/v2"

// node is a process: a copy of a shard, or free.
type node struct {
	machine int
	shard   int // -1: free
}

// layout is where everything is. A machine's rack is its number modulo the racks; a shard's copies are in racks that
// differ.
type layout struct {
	machines int
	racks    int
	nodes    []node
	members  [][]int // nodes of each shard; the first is the primary
}

func (l *layout) rack(node int) int { return l.nodes[node].machine % l.racks }

// newLayout deals nodes out to machines, and shards to nodes: each next copy goes to the machine with the fewest copies
// of those in a rack that the shard is not in, ties by chance, so that the shards of a machine have their other copies
// everywhere.
func (p *Plan) newLayout(machines int) *layout {
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	machines = max(machines, p.Racks)
	l := &layout{machines: machines, racks: p.Racks, nodes: make([]node, p.Nodes)}
	free := make([][]int, machines) // nodes without a shard, by machine
	for i := range l.nodes {
		l.nodes[i] = node{machine: i % machines, shard: -1}
		free[i%machines] = append(free[i%machines], i)
	}
	used, leads := make([]int, machines), make([]int, machines)
	for s := range p.Shards() {
		var members []int
		taken := map[int]bool{}
		for range p.Copies {
			best, ties := -1, 0
			for m := range machines {
				switch {
				case len(free[m]) == 0 || taken[m%p.Racks]:
				case best < 0 || used[m] < used[best]:
					best, ties = m, 1
				case used[m] == used[best]:
					if ties++; rng.IntN(ties) == 0 {
						best = m
					}
				}
			}
			if best < 0 { // nodes are left in racks alone that the shard is in
				break
			}
			n := free[best][0]
			free[best] = free[best][1:]
			used[best]++
			taken[best%p.Racks] = true
			l.nodes[n].shard = s
			members = append(members, n)
		}
		// The member whose machine leads the fewest leads.
		for i, n := range members {
			if leads[l.nodes[n].machine] < leads[l.nodes[members[0]].machine] {
				members[0], members[i] = members[i], members[0]
			}
		}
		leads[l.nodes[members[0]].machine]++
		l.members = append(l.members, members)
	}
	return l
}
