package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// A server as a node of a cluster: what it is told of its part, and by whom what clients ask of the cluster is done. What
// clients are answered is package route's.

// ClusterHooks are what a node of a cluster can have done for clients.
type ClusterHooks struct {
	// Failover makes this node, a replica, the primary of its shard: CLUSTER FAILOVER with the words behind it.
	Failover func(ctx context.Context, how string) error
	// Alter puts a statement behind those of the cluster's schema, and returns when all primaries that live have it.
	Alter func(ctx context.Context, statement string) error
}

// clustering is a server's part in a cluster.
type clustering struct {
	now   atomic.Pointer[standing] // never nil
	hooks ClusterHooks             // set before Listen

	mu   sync.Mutex    // guards news, and is held while the standing changes
	news chan struct{} // closed when it has changed
}

// standing is a cluster.Standing with what every command asks of it. It is immutable.
type standing struct {
	*cluster.Standing
	Map  *topology.Map // never nil
	open bool          // a primary that serves reads and writes
	all  bool          // its shard owns every slot
	held bool          // some are not served, as they are being moved from or to its shard: who asks for them waits

	schema *schema.Schema // of the map; nil: it has none, or it cannot be read
}

func newClustering() *clustering {
	k := &clustering{news: make(chan struct{})}
	k.now.Store(newStanding(&cluster.Standing{Reads: route.ErrDown, Writes: route.ErrDown}))
	return k
}

func newStanding(st *cluster.Standing) *standing {
	m := st.Map
	if m == nil {
		m = new(topology.Map)
	}
	held := st.Shard != nil && st.Shard.Groups.Minus(st.Owned) != slot.Set{} || st.Coming != slot.Set{}
	return &standing{Standing: st, Map: m, open: st.Primary && st.Reads == "" && st.Writes == "", all: st.Owned == slot.AllGroups(), held: held}
}

// names is the schema that keys are read by: that of the node's data where it leads a shard, else the cluster's. A free
// node's data has none, and a replica's may be behind.
func (c *call) names() *schema.Schema {
	if c.srv.cluster != nil {
		if st := c.srv.cluster.now.Load(); !st.Primary && st.schema != nil {
			return st.schema
		}
	}
	return c.store.Schema()
}

// learnSchema reads the schema of the map, which is seldom another one than before.
func (s *standing) learnSchema(before *standing) (err error) {
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

// expired tells whether the time that reads are served for has ended. It reads the clock.
func (s *standing) expired() bool { return time.Until(s.Until) <= 0 }

// shardID is that of the node; 0: it is free.
func (s *standing) shardID() topology.ShardID {
	if s.Shard == nil {
		return 0
	}
	return s.Shard.ID
}

// look returns the standing, and what is closed when there is a newer one.
func (k *clustering) look() (*standing, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.Load(), k.news
}

// SetClusterHooks says who does what clients ask of the cluster. Call it before Listen.
func (s *Server) SetClusterHooks(h ClusterHooks) { s.cluster.hooks = h }

// Stand tells a node of a cluster what its part is from now on. Where it serves slots no more, who watches, holds or is
// subscribed to something of them is told so. Where changes are refused, none is made any more when it returns.
func (s *Server) Stand(st *cluster.Standing) {
	k := s.cluster
	next := newStanding(st)
	k.mu.Lock()
	if err := next.learnSchema(k.now.Load()); err != nil { // as of a newer version
		s.log.Error("the cluster's schema cannot be read", "error", err)
	}
	before := k.now.Swap(next)
	close(k.news)
	k.news = make(chan struct{})
	k.mu.Unlock()
	if st.Map != nil {
		s.shards.Follow(st.Map, st.Self)
	}
	if st.Writes != "" && before.Writes == "" { // what was let in before has ended, and what comes next looks again: see call.unwritten
		if b := s.store().NewBatch(); b.BeginExclusive() == nil {
			b.End()
		}
	}
	gone := before.Owned.Minus(st.Owned)
	if gone.Empty() {
		return
	}
	s.touchedAll()
	s.pubsub.EndShard(func(channel string) bool {
		return gone.Has(groupOfChannel(channel)) && !next.mine(groupOfChannel(channel))
	})
}

// mine tells whether the map gives a group to this node's shard.
func (s *standing) mine(group uint8) bool {
	owner := s.Map.Owner(group)
	return owner != nil && owner.ID == s.shardID()
}
