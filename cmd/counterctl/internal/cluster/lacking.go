package cluster

import "github.com/counterd/counterd/cmd/internal/topology"

// lackingOf says which posts the primaries lack that their shards own. They are served to nobody, until a primary that has
// them leads.
func lackingOf(m *topology.Map, say func(severity string, s topology.ShardID, n topology.NodeID, format string, args ...any)) {
	for _, s := range m.Shards {
		if live := m.Live[s.Primary]; live != nil && !live.Lacks.Empty() {
			say(bad, s.ID, s.Primary, "shard %d: the posts of groups %s (hash slots %s) are not on its primary %s, and no move brings them: they are served to nobody",
				s.ID, live.Lacks, slotText(live.Lacks), label(m, s.Primary))
		}
	}
}
