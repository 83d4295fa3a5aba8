package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/move"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/version"
)

// joined is the agents of a member that take part in the cluster.
type joined struct {
	registry registry.Registry
	host     *agentHost
	agent    *cluster.Agent
	mover    *move.Mover
	left     atomic.Bool
}

// UseRegistry says where the cluster's topology is. Call it before the store is opened: a node with a damaged directory has to
// know the other nodes with its data.
func (m *Member) UseRegistry(reg registry.Registry) { m.registry = reg }

// Join makes the server a node of a cluster, when its store has come and before Serve: it rests until the cluster gives
// it a part. The registry is closed by Shutdown. REQUIRES UseRegistry.
func (m *Member) Join(store *counter.Store) error {
	reg := m.registry
	c := m.config.Get()
	home, err := cluster.OpenDirectory(store.Admin().FS(), store.Path())
	if err != nil {
		return err
	}
	if m.node.Replication().Healing() != nil && len(home.Starts()) > 0 {
		if err := home.SetStarts(nil); err != nil { // it lacks what it acknowledged, as an older copy of the directory does
			return err
		}
	}
	m.node.Replication().Healer().Keep(home.Verify)
	host := newAgentHost(m)
	host.schema.registry = reg
	m.node.Elect(string(home.Node()), host.notify)
	node, address, err := announced(c)
	if err != nil {
		return err
	}
	m.joined = &joined{registry: reg, host: host, agent: cluster.New(cluster.Config{
		Registry: reg, Host: host, Home: home, Node: node, Address: address, Process: m.node.Replication().Process(), Log: m.log,
		NodeTimeout: c.Cluster.Timeout(), Schema: host.schema.revision, Troubles: m.host.Troubles,
	})}
	m.joined.mover = m.newMover(m.joined)
	m.SetHooks(Hooks{Failover: m.joined.failover, Alter: host.schema.alter})
	return nil
}

// Joined tells whether Join was called. A nil member, which is of no cluster, has not joined.
func (m *Member) Joined() bool { return m != nil && m.joined != nil }

// Start begins to take part, if the member has joined.
func (m *Member) Start() {
	if m.Joined() {
		m.joined.agent.Start()
	}
}

// LeaveCluster ends the part of the node, if it has joined: see joined.leaveCluster.
func (m *Member) LeaveCluster(ctx context.Context) error {
	if !m.Joined() {
		return nil
	}
	return m.joined.leaveCluster(ctx)
}

// Stats are the agent's counts. REQUIRES Joined.
func (m *Member) Stats() cluster.Stats { return m.joined.agent.Stats() }

// RegistryError is why etcd does not answer; nil: it does. REQUIRES Joined.
func (m *Member) RegistryError() error { return m.joined.registry.Err() }

// Troubles are those that the node reports in the cluster.
func (m *Member) Troubles() []topology.Trouble {
	if !m.Joined() {
		return nil
	}
	return m.joined.agent.Troubles()
}

// Mover moves groups of hash slots to this shard. REQUIRES Joined.
func (m *Member) Mover() *move.Mover { return m.joined.mover }

// failover is CLUSTER FAILOVER.
func (j *joined) failover(ctx context.Context, how string) error {
	kinds := map[string]cluster.FailoverKind{"": cluster.Planned, "FORCE": cluster.Forced, "TAKEOVER": cluster.Forced, "FORCE-UNCLEAN": cluster.Unclean}
	ctx, cancel := context.WithTimeout(ctx, failoverWithin)
	defer cancel()
	_, err := j.agent.Failover(ctx, kinds[how])
	return err
}

// failoverWithin is how long CLUSTER FAILOVER takes at most.
const failoverWithin = 10 * time.Second

// leaveCluster hands the role over, or has the node taken out of its shard's in-sync set, so that nobody has to find out that it
// ends, and then ends its part. Only the first call does something.
func (j *joined) leaveCluster(ctx context.Context) error {
	if j.left.Swap(true) {
		return nil
	}
	draining, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	err := j.agent.Drain(draining)
	err = errors.Join(err, j.agent.Close(ctx))
	j.mover.Close()
	return errors.Join(err, j.registry.Close())
}

// drainWithin is how long an end waits for others to take over.
const drainWithin = 2 * time.Second

// announced is this node's entry for other nodes, and the address by which nodes reach it.
func announced(c config.Config) (n topology.Node, address string, err error) {
	host, err := announcedHost(&c)
	if err != nil {
		return n, "", err
	}
	n = topology.Node{Host: host, Port: cmp.Or(c.Cluster.AnnouncePort, c.Port), TLSPort: cmp.Or(c.Cluster.AnnounceTLSPort, c.TLS.Port),
		Zone: c.Cluster.Zone, Version: version.String()}
	if c.MetricsAddr != "" {
		at, port, err := net.SplitHostPort(c.MetricsAddr)
		if err != nil {
			return n, "", err
		}
		if ip := net.ParseIP(at); at == "" || at == "*" || ip != nil && ip.IsUnspecified() {
			if at == "" {
				at = "127.0.0.1" // as the listener has it
			} else {
				at = host
			}
		}
		n.HTTP = net.JoinHostPort(at, port)
	}
	return n, n.Addr(c.TLS.Replication), nil
}

// announcedHost is the host that others are told: that of the setting, the first of bind that is one host, or the address
// by which this machine reaches etcd.
func announcedHost(c *config.Config) (string, error) {
	if c.Cluster.AnnounceHost != "" {
		return c.Cluster.AnnounceHost, nil
	}
	for _, b := range c.Bind {
		if len(b) > 0 && b[0] == '-' {
			b = b[1:]
		}
		if ip := net.ParseIP(b); b != "" && b != "*" && b != "::*" && (ip == nil || !ip.IsUnspecified()) {
			return b, nil
		}
	}
	var errs []error
	for _, e := range c.Cluster.Etcd {
		u, err := url.Parse(e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), "9")) // sends nothing: it asks for the way there
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer conn.Close()
		return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
	}
	return "", fmt.Errorf("cluster-announce-ip is not given, bind names no address, and there is no way to etcd: %w", errors.Join(errs...))
}
