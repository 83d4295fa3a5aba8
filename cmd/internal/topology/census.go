package topology

import "github.com/counterd/counterd/internal/slot"

// Census is the summary of a map that an operator needs first.
type Census struct {
	Away, Free int // nodes without a lease, and of no shard
	Headless   int // shards whose primary is away, or that have none
	Thin       int // shards with nodes that are not in sync
	Unowned    slot.Set
	Down       slot.Set // of headless shards
}

// Census counts. It takes a look at each node and each shard.
func (m *Map) Census() Census {
	c := Census{Unowned: m.Unowned()}
	members := make(map[ShardID]int)
	for id, n := range m.Nodes {
		members[n.Shard]++
		if m.Live[id] == nil {
			c.Away++
		}
	}
	c.Free = members[0]
	for _, shard := range m.Shards {
		if m.Live[shard.Primary] == nil {
			c.Headless++
			c.Down = c.Down.Union(shard.Groups)
		}
		if len(shard.InSync) < members[shard.ID] {
			c.Thin++
		}
	}
	return c
}
