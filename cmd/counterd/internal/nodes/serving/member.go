package serving

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
)

// Hooks are the functions that a node of a cluster calls for clients.
type Hooks struct {
	// Failover makes this node, a replica, the primary of its shard: CLUSTER FAILOVER with the words behind it.
	Failover func(ctx context.Context, how string) error
	// Alter puts a statement behind those of the cluster's schema, and returns when all primaries that live have it.
	Alter func(ctx context.Context, statement string) error
}

// Host is the server around a member.
type Host interface {
	// Store is the one being served.
	Store() *counter.Store
	// Follow tells the links to other shards of a new map.
	Follow(m *topology.Map, self topology.NodeID)
	// TouchAll says that any key may have changed.
	TouchAll()
	// EndShardChannels ends the subscriptions to shard channels that gone is true for.
	EndShardChannels(gone func(channel string) bool)
	// Troubles are those that the server reports of itself.
	Troubles() []topology.Trouble
	// CommandRate is how many commands a second are executed.
	CommandRate() float64
}

// Member is this node's part in a cluster: the slots that it serves (Now), and its agents from Join on. All methods may be
// called concurrently.
type Member struct {
	host   Host
	node   *role.Role
	config *config.Live
	log    *slog.Logger

	now      atomic.Pointer[Standing] // never nil
	hooks    Hooks                    // set before the server listens
	registry registry.Registry        // see UseRegistry
	joined   *joined                  // set by Join, before the server listens; nil: SetStanding alone decides

	mu   sync.Mutex    // guards news, and is held while the standing changes
	news chan struct{} // closed when it has changed
}

// New makes a member that serves nothing yet.
func New(host Host, n *role.Role, conf *config.Live, log *slog.Logger) *Member {
	m := &Member{host: host, node: n, config: conf, log: log, news: make(chan struct{})}
	n.HelpBy(m.findHelp, m.others, m.inSync)
	m.now.Store(NewStanding(&cluster.Standing{Reads: route.ErrDown, Writes: route.ErrDown}))
	return m
}

// Now is the present standing: the slots that the node serves.
func (m *Member) Now() *Standing { return m.now.Load() }

// Hooks are the functions that the node calls for clients.
func (m *Member) Hooks() Hooks { return m.hooks }

// SetHooks sets the functions for clients' requests to the cluster. Call it before the server listens.
func (m *Member) SetHooks(h Hooks) { m.hooks = h }

// NowAndNews returns the standing, and a channel that is closed when there is a newer standing.
func (m *Member) NowAndNews() (*Standing, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Load(), m.news
}

// SetStanding says what the node's part in the cluster is from now on. Clients that watch, cache or are subscribed to something
// of slots that the node no longer serves are told so. If the standing refuses changes, no change is made any more when
// SetStanding returns. The same holds for reads.
func (m *Member) SetStanding(st *cluster.Standing) {
	next := NewStanding(st)
	m.mu.Lock()
	if err := next.learnSchema(m.now.Load()); err != nil { // as of a newer version
		m.log.Error("cannot read the schema of the cluster", "error", err)
	}
	before := m.now.Swap(next)
	close(m.news)
	m.news = make(chan struct{})
	m.mu.Unlock()
	if st.Map != nil {
		m.host.Follow(st.Map, st.Self)
	}
	if st.Writes != "" && before.Writes == "" || st.Reads != "" && before.Reads == "" { // commands admitted before have ended, and later ones check again: see Standing.Writes
		if b := m.host.Store().NewBatch(); b.BeginExclusive() == nil {
			b.End()
		}
	}
	gone := before.Owned.Minus(st.Owned)
	if !gone.Empty() {
		m.host.TouchAll()
	}
	// The source of a move stops serving its groups before the map gives them to another shard: only the map tells where a channel is.
	if before.Map != next.Map {
		m.host.EndShardChannels(func(channel string) bool {
			group := groupOfChannel(channel)
			return !next.Mine(group) && (before.Mine(group) || gone.Has(group))
		})
	}
}
