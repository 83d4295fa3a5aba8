package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/feedjoin"
)

// feedSource is the node, or the nodes of a cluster, that a feed reads. Safe for concurrent use.
type feedSource struct {
	rdb   doer
	nodes *feedNodes // nil: it is no cluster
	words []any      // of COUNTER.FEED, behind its position
}

// doer is a client of one node or of several.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

var _ feedjoin.Source[FeedChange] = (*feedSource)(nil)

// newFeedSource makes the source of a client's feed.
func newFeedSource(c *Client) (*feedSource, error) {
	s := &feedSource{rdb: c.rdb}
	if !c.cluster {
		return s, nil
	}
	if c.owners.cluster == nil {
		return nil, errFeedCluster
	}
	s.nodes = &feedNodes{options: c.owners.cluster.Options(), find: c.owners.cluster.ClusterShards}
	return s, nil
}

// Shards asks the cluster for its shards.
func (s *feedSource) Shards(ctx context.Context) ([]uint64, error) {
	if s.nodes == nil {
		return []uint64{0}, nil
	}
	return s.nodes.look(ctx)
}

// errFeedPosition: a position of a cluster is none of a single node, and the other way round.
var errFeedPosition = errors.New("client: not a position of the feed of this cluster or server")

// node is the node that leads a shard.
func (s *feedSource) node(ctx context.Context, shard uint64) (doer, error) {
	switch {
	case (s.nodes == nil) != (shard == 0):
		return nil, errFeedPosition
	case s.nodes == nil:
		return s.rdb, nil
	}
	return s.nodes.of(ctx, shard)
}

// Reader reads a shard on the node that leads it.
func (s *feedSource) Reader(ctx context.Context, shard uint64) (feedjoin.Reader[FeedChange], error) {
	node, err := s.node(ctx, shard)
	if err != nil {
		return nil, err
	}
	return &feedReader{source: s, shard: shard, node: node}, nil
}

// Ends is the error that ends a feed.
func (s *feedSource) Ends(_ uint64, _ string, err error) error { return feedError(err) }

// Do sends a command about cursors to the node that leads a shard.
func (s *feedSource) Do(ctx context.Context, shard uint64, words ...string) (text string, ok bool, err error) {
	node, err := s.node(ctx, shard)
	if err != nil {
		return "", false, err
	}
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	if text, err = node.Do(ctx, args...).Text(); errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return text, err == nil, err
}

func (s *feedSource) close() {
	if s.nodes != nil {
		s.nodes.close()
	}
}

// feedReader reads one shard.
type feedReader struct {
	source *feedSource
	shard  uint64
	node   doer
}

// Read reads the changes behind a position, and waits for the next one.
func (r *feedReader) Read(ctx context.Context, from string) (reply feedjoin.Reply[FeedChange], err error) {
	args := append([]any{"COUNTER.FEED", "FROM", from}, r.source.words...)
	if from != FeedNow { // the first position is needed at once
		args = append(args, "BLOCK", feedBlock.Milliseconds())
	}
	values, err := r.node.Do(ctx, args...).Slice()
	if err == nil {
		reply.Next, reply.Changes, err = parseFeed(values)
	}
	return reply, err
}

// Close has the cluster asked for the node that leads the shard.
func (r *feedReader) Close() {
	if node, ok := r.node.(*redis.Client); ok && r.source.nodes != nil {
		r.source.nodes.suspect(r.shard, node)
	}
}

// feedNodes are the nodes that lead the shards. Safe for concurrent use.
type feedNodes struct {
	options *redis.ClusterOptions
	find    func(ctx context.Context) *redis.ClusterShardsCmd

	mu     sync.Mutex
	byAddr map[string]*redis.Client
	leads  map[uint64]*redis.Client // by shard
	asked  time.Time
	closed bool
}

// look asks the cluster for its shards. Of one without a primary that answers the number is not known, which is the error: the others are known nevertheless.
func (n *feedNodes) look(ctx context.Context) (ids []uint64, err error) {
	shards, err := n.find(ctx).Result()
	if err != nil {
		return nil, err
	}
	if len(shards) == 0 { // the node has not heard of etcd since its start
		return nil, errNoLeader
	}
	for _, shard := range shards {
		led := len(shard.Nodes) == 0
		for _, node := range shard.Nodes {
			if node.Role != "master" || node.Health != "online" {
				continue
			}
			led = true
			client := n.client(&node)
			id, failed := shardOf(ctx, client)
			if failed != nil {
				err = failed
				continue
			}
			n.mu.Lock()
			n.leads[id] = client
			n.mu.Unlock()
			ids = append(ids, id)
		}
		if !led {
			err = errNoLeader
		}
	}
	return ids, err
}

// shardOf asks a node for its shard.
func shardOf(ctx context.Context, node *redis.Client) (uint64, error) {
	name, err := node.Do(ctx, "CLUSTER", "MYSHARDID").Text()
	if err != nil {
		return 0, err
	}
	number := strings.TrimLeft(name, "0")
	if number == "" && name != "" { // it was just started, or is of no shard any more
		return 0, errNoLeader
	}
	id, err := strconv.ParseUint(number, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("client: CLUSTER MYSHARDID: %w", err)
	}
	return id, nil
}

// client returns the client of a node.
func (n *feedNodes) client(node *redis.Node) *redis.Client {
	port := node.Port
	if n.options.TLSConfig != nil {
		port = node.TLSPort
	}
	addr := net.JoinHostPort(node.Endpoint, strconv.FormatInt(port, 10))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byAddr == nil {
		n.byAddr, n.leads = make(map[string]*redis.Client), make(map[uint64]*redis.Client)
	}
	c := n.byAddr[addr]
	if c == nil {
		o := n.options
		c = redis.NewClient(&redis.Options{Addr: addr, ClientName: o.ClientName, Dialer: o.Dialer, OnConnect: o.OnConnect, Protocol: o.Protocol,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider, MaxRetries: -1, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
			WriteTimeout: o.WriteTimeout, TLSConfig: o.TLSConfig, PoolSize: 2, DisableIdentity: o.DisableIdentity})
		if n.closed { // a look that was under way
			_ = c.Close()
		}
		n.byAddr[addr] = c
	}
	return c
}

// errNoLeader: nobody is known to lead a shard. The same may go well later.
var errNoLeader = errors.New("CLUSTERDOWN no node is known to lead the shard")

// of returns the client of the node that leads a shard. Where that is not known the cluster is asked, each 100 ms at most.
func (n *feedNodes) of(ctx context.Context, shard uint64) (*redis.Client, error) {
	n.mu.Lock()
	c, due := n.leads[shard], time.Since(n.asked) > 100*time.Millisecond
	if c == nil && due {
		n.asked = time.Now()
	}
	n.mu.Unlock()
	if c != nil {
		return c, nil
	}
	var err error
	if due {
		_, err = n.look(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c = n.leads[shard]; c != nil {
		return c, nil
	}
	return nil, cmp.Or(err, error(errNoLeader))
}

// suspect forgets that a node leads a shard, as it refused or did not answer.
func (n *feedNodes) suspect(shard uint64, c *redis.Client) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leads[shard] == c {
		delete(n.leads, shard)
	}
}

// close closes all connections.
func (n *feedNodes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, c := range n.byAddr {
		_ = c.Close()
	}
}
