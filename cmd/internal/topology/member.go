package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// CreateCluster makes a cluster without shards; AddShard gives it some. id is random.
func CreateCluster(m *Map, id string, now time.Time, replicas, minInSync int) (Change, error) {
	c := Change{What: "create the cluster"}
	switch {
	case m.Created():
		return Change{}, refuse(c.What, "there is one, made %s", m.Cluster.Created.UTC().Format(time.RFC3339))
	case replicas < 0 || minInSync < 1 || minInSync > replicas+1:
		return Change{}, refuse(c.What, "got %d replicas and %d in sync at least, want not below 0, and from 1 to the replicas and the primary", replicas, minInSync)
	}
	c.setCluster(Cluster{Format: Format, ID: id, Created: now.UTC().Truncate(time.Second), Replicas: replicas, MinInSync: minInSync})
	return c, nil
}

// SetPolicy changes how many replicas a shard is to have, and how many nodes must have a change.
func SetPolicy(m *Map, replicas, minInSync int) (Change, error) {
	c := Change{What: fmt.Sprintf("%d replicas, %d in sync at least", replicas, minInSync)}
	switch {
	case !m.Created():
		return Change{}, refuse(c.What, "the cluster is not created")
	case replicas < 0 || minInSync < 1 || minInSync > replicas+1:
		return Change{}, refuse(c.What, "want replicas not below 0, and in sync from 1 to the replicas and the primary")
	}
	next := m.Cluster
	next.Replicas, next.MinInSync = replicas, minInSync
	c.setCluster(next)
	return c, nil
}

// AddShard makes a shard of free nodes, which owns groups that nobody owned, or none. The first node alone is in sync: it
// becomes the primary, the others its replicas. Its directory must not be an older copy. The shard's id is that of the change's result:
// Cluster.LastShard.
func AddShard(m *Map, nodes []NodeID, groups slot.Set) (Change, error) {
	id := m.Cluster.LastShard + 1
	c := Change{What: fmt.Sprintf("add shard %d of %s with groups %s", id, nodes, groups)}
	switch {
	case !m.Created():
		return Change{}, refuse(c.What, "the cluster is not created")
	case len(nodes) == 0:
		return Change{}, refuse(c.What, "got no nodes, want one at least")
	case len(m.Shards) == slot.Groups:
		return Change{}, refuse(c.What, "there are %d shards, as many as groups", slot.Groups)
	}
	if owned := groups.Minus(m.Unowned()); !owned.Empty() {
		return Change{}, refuse(c.What, "groups %s are owned: want them moved", owned)
	}
	if first := m.Live[nodes[0]]; first != nil && first.Outdated { // it would never lead: only a node that leads takes an older copy out of those in sync
		return Change{}, refuse(c.What, "the directory of node %s is an older copy: want it registered anew, which a free node is within a second", nodes[0])
	}
	next := m.Cluster
	next.LastShard = id
	c.setCluster(next)
	for i, n := range nodes {
		if slices.Contains(nodes[:i], n) {
			return Change{}, refuse(c.What, "got %s twice", n)
		}
		if err := c.assign(m, n, id); err != nil {
			return Change{}, err
		}
	}
	c.setShard(Shard{ID: id, InSync: []NodeID{nodes[0]}, Groups: groups})
	return c, nil
}

// RemoveShard takes away a shard that owns nothing; its nodes are free.
func RemoveShard(m *Map, id ShardID) (Change, error) {
	c := Change{What: fmt.Sprintf("remove shard %d", id)}
	s := m.Shard(id)
	switch {
	case s == nil:
		return Change{}, refuse(c.What, "there is no such shard")
	case !s.Groups.Empty():
		return Change{}, refuse(c.What, "it owns groups %s: want them moved away", s.Groups)
	}
	for _, v := range m.Moves {
		if v.From == id || v.To == id {
			return Change{}, refuse(c.What, "groups %s are on their way from shard %d to %d", v.Groups, v.From, v.To)
		}
	}
	for _, n := range m.Members(id) {
		free := *n
		free.Shard = 0
		c.setNode(free)
	}
	c.Remove(ShardKey(id), s.Revision)
	return c, nil
}

// RegisterNode says how a node is reached. Of which shard it is, whether it is retired, and its start stay as they were. An
// empty change means that it is so.
func RegisterNode(m *Map, n Node) (Change, error) {
	c := Change{What: fmt.Sprintf("register node %s", n.ID)}
	old := m.Nodes[n.ID]
	n.Shard, n.Retired, n.Start, n.Revision = 0, false, Start{}, 0
	if old != nil {
		n.Shard, n.Retired, n.Start, n.Revision = old.Shard, old.Retired, old.Start, old.Revision
		if n == *old {
			return c, nil
		}
	}
	if err := n.check(n.ID); err != nil {
		return Change{}, refuse(c.What, "%v", err)
	}
	c.setNode(n)
	return c, nil
}

// AssignNode makes a free node a replica of a shard.
func AssignNode(m *Map, n NodeID, id ShardID) (Change, error) {
	c := Change{What: fmt.Sprintf("add node %s to shard %d", n, id)}
	s := m.Shard(id)
	if s == nil {
		return Change{}, refuse(c.What, "there is no such shard")
	}
	c.setShard(*s) // written, so that of this and the removal of the shard only one can be made
	if err := c.assign(m, n, id); err != nil {
		return Change{}, err
	}
	return c, nil
}

func (c *Change) assign(m *Map, id NodeID, shard ShardID) error {
	n := m.Nodes[id]
	switch {
	case n == nil:
		return refuse(c.What, "node %s is not known: it has not registered itself", id)
	case n.Shard != 0:
		return refuse(c.What, "node %s is of shard %d", id, n.Shard)
	}
	next := *n
	next.Shard, next.Retired = shard, false
	c.setNode(next)
	return nil
}

// ReleaseNode takes a node that is not the primary out of its shard: it is free. least is how many must stay in sync.
func ReleaseNode(m *Map, id NodeID, least int) (Change, error) {
	c := Change{What: fmt.Sprintf("take node %s out of its shard", id)}
	if n := m.Nodes[id]; n == nil || n.Shard == 0 {
		return Change{}, refuse(c.What, "it is of none")
	}
	return c.release(m, id, least, false)
}

// RetireNode does the same, also for a node that is free already, and no shard takes it by itself any more.
func RetireNode(m *Map, id NodeID, least int) (Change, error) {
	c := Change{What: fmt.Sprintf("retire node %s", id)}
	if m.Nodes[id] == nil {
		return Change{}, refuse(c.What, "it is not known")
	}
	return c.release(m, id, least, true)
}

func (c Change) release(m *Map, id NodeID, least int, retire bool) (Change, error) {
	next := *m.Nodes[id]
	if s := m.Shard(next.Shard); s != nil {
		if err := c.leave(s, id, least); err != nil {
			return Change{}, err
		}
	}
	next.Shard, next.Retired = 0, next.Retired || retire
	c.setNode(next)
	return c, nil
}

// leave takes a node out of those in sync, or makes sure that it is not among them.
func (c *Change) leave(s *Shard, id NodeID, least int) error {
	if !s.Has(id) {
		c.Same(ShardKey(s.ID), s.Revision)
		return nil
	}
	next := *s
	next.InSync = slices.DeleteFunc(slices.Clone(s.InSync), func(n NodeID) bool { return n == id })
	switch {
	case s.Primary == id:
		return refuse(c.What, "it is the primary of shard %d: want another to lead", s.ID)
	case len(next.InSync) < max(least, 1):
		return refuse(c.What, "%d of shard %d would stay in sync, want %d", len(next.InSync), s.ID, max(least, 1))
	}
	c.setShard(next)
	return nil
}

// ForgetNode removes a node that is not alive, also out of its shard. least is how many must stay in sync there.
func ForgetNode(m *Map, id NodeID, least int) (Change, error) {
	c := Change{What: fmt.Sprintf("forget node %s", id)}
	n := m.Nodes[id]
	switch {
	case n == nil:
		return Change{}, refuse(c.What, "it is not known")
	case m.Live[id] != nil:
		return Change{}, refuse(c.What, "it is alive, and would register itself again")
	}
	if s := m.Shard(n.Shard); s != nil {
		if err := c.leave(s, id, least); err != nil {
			return Change{}, err
		}
	}
	c.Same(LiveKey(id), 0)
	c.Remove(NodeKey(id), n.Revision)
	return c, nil
}

// SetSchema gives the cluster another schema, in the durable form, because of a statement.
func SetSchema(m *Map, text, statement string) (Change, error) {
	c := Change{What: fmt.Sprintf("schema: %.100q", statement)}
	if !m.Created() {
		return Change{}, refuse(c.What, "the cluster is not created")
	}
	c.Same(ClusterKey, m.Cluster.Revision)
	c.Set(SchemaKey, m.Schema.Revision, Schema{Text: text})
	return c, nil
}
