package topology

import (
	"fmt"
	"maps"
	"slices"
)

// Faults lists what contradicts the invariants of a cluster, though each value alone can be used. Changes of this package
// make none; a hand in etcd can.
func (m *Map) Faults() []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, s := range m.Shards {
		if s.ID > m.Cluster.LastShard {
			say("shard %d: above the last that was given: %d", s.ID, m.Cluster.LastShard)
		}
		for _, id := range s.InSync {
			if n := m.Nodes[id]; n == nil || n.Shard != s.ID {
				say("shard %d: %s is in sync, but no node of it", s.ID, id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		if n := m.Nodes[id]; n.Shard != 0 && m.Shard(n.Shard) == nil {
			say("node %s: of shard %d, which is not there", id, n.Shard)
		}
	}
	moving := map[uint8]string{}
	for _, v := range m.Moves {
		if v.State != MoveCopying {
			continue // the shards have the owner, and later moves may have taken the group further
		}
		for _, r := range v.Groups.Ranges() {
			for g := int(r.First); g <= int(r.Last); g++ {
				if other, ok := moving[uint8(g)]; ok {
					say("move %s: group %d is in move %s too", v.ID, g, other)
				}
				moving[uint8(g)] = v.ID
				if owner := m.owner[g]; v.From != 0 && (owner == nil || owner.ID != v.From) {
					say("move %s: shard %d does not own group %d", v.ID, v.From, g)
				}
			}
		}
	}
	return list
}
