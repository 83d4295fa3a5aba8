package topology

import (
	"fmt"
	"math"
	"slices"
)

// Promote makes a node that is in sync the primary of the next epoch. The old primary is no longer in sync: it may have
// changes that the others lack and that were never acknowledged. It must drop them before it counts again. The node itself
// proposes this, so that nobody leads who does not know of it. A primary that started anew and is alone in sync promotes
// itself.
func Promote(m *Map, id ShardID, by NodeID) (Change, error) { return PromoteAbove(m, id, by, 0) }

// PromoteAbove is Promote by a node whose log has seen the epoch above, as it was of another shard: the next one is higher
// than that too.
func PromoteAbove(m *Map, id ShardID, by NodeID, above uint64) (Change, error) {
	return promote(m, id, by, above, false)
}

// PromoteBehind is PromoteAbove by a node that is behind, as all in sync are: it may lack acknowledged changes, and the
// others must drop those (Shard.Unclean).
func PromoteBehind(m *Map, id ShardID, by NodeID, above uint64) (Change, error) {
	return promote(m, id, by, above, true)
}

func promote(m *Map, id ShardID, by NodeID, above uint64, unclean bool) (Change, error) {
	return lead(m, fmt.Sprintf("shard %d: promote %s", id, by), id, by, above, unclean, func(s *Shard) []NodeID {
		return slices.DeleteFunc(slices.Clone(s.InSync), func(n NodeID) bool { return n == s.Primary && n != by })
	})
}

// PlannedSwitch makes a node that is in sync the primary of the next epoch and leaves who led in sync. Only the primary
// may propose it, while it holds its writes and knows that the node has all it has.
func PlannedSwitch(m *Map, id ShardID, to NodeID) (Change, error) {
	what := fmt.Sprintf("shard %d: switch to %s", id, to)
	if s := m.Shard(id); s != nil && s.Primary == to {
		return Change{}, refuse(what, "it is the primary")
	}
	return lead(m, what, id, to, 0, false, func(s *Shard) []NodeID { return s.InSync })
}

// ForceUnclean makes any node of a shard the primary of the next epoch, alone in sync. Acknowledged changes that the node
// does not have are lost. The new epoch is higher than above, the epoch of the node's log: etcd may have been restored from
// a backup that is older than the log.
func ForceUnclean(m *Map, id ShardID, by NodeID, above uint64) (Change, error) {
	what := fmt.Sprintf("shard %d: force %s", id, by)
	s, n := m.Shard(id), m.Nodes[by]
	if s != nil && (n == nil || n.Shard != id) {
		return Change{}, refuse(what, "it is no node of the shard")
	}
	if s != nil && s.Primary == by && len(s.InSync) == 1 && m.Live[by] != nil && !m.Live[by].Outdated {
		return Change{}, refuse(what, "it is the primary, alone in sync, and alive")
	}
	c, err := raise(m, what, id, by, above, true, func(*Shard) []NodeID { return []NodeID{by} })
	if err == nil {
		c.Same(NodeKey(by), n.Revision) // it is not being taken out of the shard
	}
	return c, err
}

// ForceOutdated is ForceUnclean by a node whose directory is an older copy: the start makes the copy the newest one.
func ForceOutdated(m *Map, id ShardID, by NodeID, above uint64, start Start) (Change, error) {
	c, err := ForceUnclean(m, id, by, above)
	if err == nil {
		err = c.begin(m, by, start)
	}
	return c, err
}

func lead(m *Map, what string, id ShardID, by NodeID, above uint64, unclean bool, inSync func(*Shard) []NodeID) (Change, error) {
	if s := m.Shard(id); s != nil && !s.Has(by) {
		return Change{}, refuse(what, "it is not in sync; those are %s", s.InSync)
	}
	return raise(m, what, id, by, above, unclean, inSync)
}

func raise(m *Map, what string, id ShardID, by NodeID, above uint64, unclean bool, inSync func(*Shard) []NodeID) (Change, error) {
	s := m.Shard(id)
	switch {
	case s == nil:
		return Change{}, refuse(what, "there is no such shard")
	case max(s.Epoch, above) >= math.MaxUint32:
		return Change{}, refuse(what, "the epoch is %d, the highest", max(s.Epoch, above))
	}
	next := *s
	next.InSync, next.Primary, next.ReplID = inSync(s), by, ""
	next.Epoch = max(s.Epoch, above) + 1
	if unclean {
		next.Unclean = next.Epoch
	}
	c := Change{What: fmt.Sprintf("%s for epoch %d", what, next.Epoch)}
	c.setShard(next)
	return c, nil
}

// Shrink takes nodes out of those in sync. Only the primary of the epoch proposes it, and goes on requiring them until it
// knows that it happened.
func Shrink(m *Map, id ShardID, epoch uint64, out []NodeID) (Change, error) {
	what := fmt.Sprintf("shard %d: out of sync: %s", id, out)
	return edit(m, what, id, epoch, func(s *Shard) error {
		if slices.Contains(out, s.Primary) {
			return refuse(what, "%s is the primary", s.Primary)
		}
		s.InSync = slices.DeleteFunc(slices.Clone(s.InSync), func(n NodeID) bool { return slices.Contains(out, n) })
		return nil
	})
}

// Expand puts nodes in sync. Only the primary of the epoch proposes it, which requires them before.
func Expand(m *Map, id ShardID, epoch uint64, in []NodeID) (Change, error) {
	what := fmt.Sprintf("shard %d: in sync: %s", id, in)
	c, err := edit(m, what, id, epoch, func(s *Shard) error {
		s.InSync = slices.Clone(s.InSync)
		for _, n := range in {
			if node := m.Nodes[n]; node == nil || node.Shard != id {
				return refuse(what, "%s is no node of the shard", n)
			}
			if !s.Has(n) {
				s.InSync = append(s.InSync, n)
			}
		}
		return nil
	})
	for _, n := range in {
		if err == nil {
			c.Same(NodeKey(n), m.Nodes[n].Revision) // it is not being taken out of the shard
		}
	}
	return c, err
}

// SetReplID says what the log's replication id is since the epoch began. Only the primary of the epoch proposes it.
func SetReplID(m *Map, id ShardID, epoch uint64, replid string) (Change, error) {
	return edit(m, fmt.Sprintf("shard %d: epoch %d is %s", id, epoch, replid), id, epoch, func(s *Shard) error {
		s.ReplID = replid
		return nil
	})
}

// edit changes a shard as its primary of the epoch.
func edit(m *Map, what string, id ShardID, epoch uint64, change func(*Shard) error) (Change, error) {
	s := m.Shard(id)
	switch {
	case s == nil:
		return Change{}, refuse(what, "there is no such shard")
	case s.Epoch != epoch || s.Primary == "":
		return Change{}, refuse(what, "got epoch %d, want that of its primary: %d", epoch, s.Epoch)
	}
	next := *s
	if err := change(&next); err != nil {
		return Change{}, err
	}
	c := Change{What: what}
	c.setShard(next)
	return c, nil
}
