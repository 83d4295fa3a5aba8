package serving

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Standing is a cluster.Standing with precomputed answers for every command. It is
// immutable.
type Standing struct {
	*cluster.Standing
	Map  *topology.Map // never nil
	open bool          // a primary that serves reads and writes
	all  bool          // its shard owns every slot
	held bool          // some are not served, as they are being moved from or to its shard: commands on them wait

	began  time.Time
	schema *schema.Schema // of the map; nil: it has none, or it cannot be read
}

// NewStanding makes the standing of a node from its agent's.
func NewStanding(st *cluster.Standing) *Standing {
	m := st.Map
	if m == nil {
		m = new(topology.Map)
	}
	held := st.Shard != nil && st.Shard.Groups.Minus(st.Owned) != slot.Set{} || st.Coming != slot.Set{}
	return &Standing{Standing: st, Map: m, open: st.Primary && st.Reads == "" && st.Writes == "", all: st.Owned == slot.AllGroups(), held: held, began: time.Now()}
}

// learnSchema reads the schema of the map, which is seldom another one than before.
func (s *Standing) learnSchema(before *Standing) (err error) {
	text := s.Map.Schema.Text
	if text == "" {
		return nil
	}
	if before.schema != nil && before.Map.Schema.Text == text {
		s.schema = before.schema
		return nil
	}
	s.schema, err = schema.ParseDurable([]byte(text))
	return err
}

// Expired tells whether the time that reads are served for has ended. It reads the clock.
func (s *Standing) Expired() bool { return time.Until(s.Until) <= 0 }

// ShardID is that of the node; 0: it is free.
func (s *Standing) ShardID() topology.ShardID {
	if s.Shard == nil {
		return 0
	}
	return s.Shard.ID
}

// Mine tells whether the map gives a group to this node's shard.
func (s *Standing) Mine(group uint8) bool {
	owner := s.Map.Owner(group)
	return owner != nil && owner.ID == s.ShardID()
}

// Schema is the cluster's; nil: the map has none, or it cannot be read.
func (s *Standing) Schema() *schema.Schema { return s.schema }

// View is the cluster as a connection is told of it.
func (s *Standing) View(secure bool) route.View {
	return route.View{Map: s.Map, Self: s.Self, TLS: secure}
}
