package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The feed of a cluster is the feeds of its shards, joined. Each shard has a goroutine that reads one reply at a time. A post is in one
// shard at a time, so the changes of a post come in order if those of its next shard, behind a gain, wait until the feed of its shard
// before has come to the place that the gain names. The wait ends: the gain was logged after all that it waits for.
//
// A position is one of each shard:
//
//	c1,<shard>=<position>,<shard>=<position>...
//
// shard is a decimal number, in ascending order. A shard that is not in it is new, and is read from the beginning of its log: it had nothing
// before its first gain.

// clusterFeed is the feed of a cluster. It belongs to the goroutine of its consumer, but for nodes.
type clusterFeed struct {
	c      *Client
	ctx    context.Context
	shards map[uint64]*shardFeed
	nodes  feedNodes
	read   chan feedRead
	done   sync.WaitGroup
}

// shardFeed is the feed of one shard.
type shardFeed struct {
	id      uint64
	at      string        // behind the last change that was given
	waiting []FeedChange  // that were read
	end     string        // behind them
	asked   bool          // for a reply that has not come yet
	more    chan struct{} // asks for the next reply
}

// feedRead is a reply that a goroutine has read.
type feedRead struct {
	shard   uint64
	next    string
	changes []FeedChange
	err     error
}

const (
	clusterPosition = "c1"
	// feedBegin is the position before the first change of a log.
	feedBegin = "1-0000000000000000-0-0-510b"
	// feedLook is how often a feed looks for new shards.
	feedLook = 2 * time.Second
)

// errFeedShard: the changes of a shard cannot be had any more.
var errFeedShard = errors.New("client: a shard has left the cluster before all of its changes were read")

// feedCluster is Feed of a cluster.
func (c *Client) feedCluster(ctx context.Context, from string, yield func(FeedChange, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	f := &clusterFeed{c: c, ctx: ctx, shards: make(map[uint64]*shardFeed), read: make(chan feedRead)}
	f.nodes.options = c.owners.cluster.Options()
	f.nodes.find = c.owners.cluster.ClusterShards
	defer f.nodes.close()
	defer f.done.Wait()
	defer cancel()
	if err := f.run(from, yield); err != nil {
		yield(FeedChange{}, err)
	}
}

// run gives changes until it has to end. nil: the consumer has left.
func (f *clusterFeed) run(from string, yield func(FeedChange, error) bool) error {
	positions, err := parseClusterPosition(from)
	if err != nil {
		return err
	}
	first := feedBegin
	if positions == nil {
		first = from
	}
	for id, at := range positions {
		f.add(id, at)
	}
	if err := f.look(first); err != nil {
		return err
	}
	timer := time.NewTicker(feedLook)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-timer.C:
			if err := f.look(feedBegin); err != nil {
				return err
			}
		case r := <-f.read:
			s := f.shards[r.shard]
			if r.err != nil {
				return f.failure(s, r.err)
			}
			s.waiting, s.end, s.asked = r.changes, r.next, false
		}
		if left, err := f.give(yield); left || err != nil {
			return err
		}
	}
}

// add begins to read a shard.
func (f *clusterFeed) add(id uint64, at string) {
	s := &shardFeed{id: id, at: at, end: at, asked: true, more: make(chan struct{}, 1)}
	f.shards[id] = s
	s.more <- struct{}{}
	f.done.Add(1)
	go func() {
		defer f.done.Done()
		f.follow(s.id, at, s.more)
	}()
}

// look finds the shards of the cluster. Those that are new are read from a position on. At first it waits until the cluster answers.
func (f *clusterFeed) look(first string) error {
	for pause := feedLeast; ; pause = min(2*pause, feedMost) {
		ids, err := f.nodes.look(f.ctx)
		if err == nil {
			for _, id := range ids {
				if f.shards[id] == nil {
					f.add(id, first)
				}
			}
			return nil
		}
		if f.ctx.Err() != nil {
			return f.ctx.Err()
		}
		if err = feedError(err); err != nil {
			return err
		}
		if len(f.shards) > 0 {
			return nil // the next look
		}
		feedPause(f.ctx, pause)
	}
}

// failure is the error of a shard that ends the feed, with the position of all shards.
func (f *clusterFeed) failure(s *shardFeed, err error) error {
	var gone *PositionError
	if errors.As(err, &gone) && gone.Next != "" {
		s.at = gone.Next
		gone.Next = f.position()
	}
	return err
}

// give gives all changes that need not wait.
func (f *clusterFeed) give(yield func(FeedChange, error) bool) (left bool, err error) {
	for given := true; given; {
		given = false
		for _, id := range slices.Sorted(maps.Keys(f.shards)) {
			s := f.shards[id]
			for len(s.waiting) > 0 {
				change := s.waiting[0]
				ready, err := f.ready(&change)
				if err != nil {
					return false, err
				}
				if !ready {
					break
				}
				s.at, s.waiting = change.Position, s.waiting[1:]
				change.Shard, change.Position = id, f.position()
				if given = true; !yield(change, nil) {
					return true, nil
				}
			}
			if len(s.waiting) == 0 && !s.asked {
				given = given || s.at != s.end
				s.at, s.asked = s.end, true
				s.more <- struct{}{}
			}
		}
	}
	return false, nil
}

// ready tells whether a change may be given: each shard that it gains from has come to the place that the gain names.
func (f *clusterFeed) ready(change *FeedChange) (bool, error) {
	for i := range change.Parts {
		p := &change.Parts[i]
		if p.Kind != "gain" || p.From == 0 {
			continue
		}
		source := f.shards[p.From]
		if source == nil { // it is new, too, or it has gone
			if err := f.look(feedBegin); err != nil {
				return false, err
			}
			if source = f.shards[p.From]; source == nil {
				return false, fmt.Errorf("%w: shard %d, which %s came from", errFeedShard, p.From, p.Groups)
			}
		}
		if at, ok := feedOffset(source.at); !ok || at < p.Offset {
			return false, nil
		}
	}
	return true, nil
}

// position is behind the last change that was given of each shard.
func (f *clusterFeed) position() string {
	var b strings.Builder
	b.WriteString(clusterPosition)
	for _, id := range slices.Sorted(maps.Keys(f.shards)) {
		b.WriteByte(',')
		b.WriteString(strconv.FormatUint(id, 10))
		b.WriteByte('=')
		b.WriteString(f.shards[id].at)
	}
	return b.String()
}

// parseClusterPosition reads a position; nil of FeedNow and FeedOldest, which each shard understands.
func parseClusterPosition(text string) (map[uint64]string, error) {
	if text == FeedNow || text == FeedOldest {
		return nil, nil
	}
	fields := strings.Split(text, ",")
	positions := make(map[uint64]string, len(fields))
	for _, field := range fields[1:] {
		id, at, ok := strings.Cut(field, "=")
		n, err := strconv.ParseUint(id, 10, 64)
		if _, twice := positions[n]; !ok || err != nil || twice || at == "" {
			return nil, fmt.Errorf("client: not a position of the feed of a cluster: %.200q", text)
		}
		positions[n] = at
	}
	if fields[0] != clusterPosition || len(positions) == 0 {
		return nil, fmt.Errorf("client: not a position of the feed of a cluster: %.200q", text)
	}
	return positions, nil
}

// feedOffset is the log offset of a position of a server; ok is false of FeedNow and FeedOldest.
func feedOffset(position string) (offset uint64, ok bool) {
	fields := strings.Split(position, "-")
	if len(fields) < 5 {
		return 0, false
	}
	frame, into, _ := strings.Cut(fields[3], "+")
	n, err := strconv.ParseUint(frame, 10, 64)
	inside, _ := strconv.ParseUint(into, 10, 32) // 0 where there is none
	return n + inside, err == nil
}

// follow reads a shard until the feed ends: one reply each time that it is asked.
func (f *clusterFeed) follow(id uint64, at string, more <-chan struct{}) {
	for {
		select {
		case <-more:
		case <-f.ctx.Done():
			return
		}
		r := f.reply(id, at)
		at = r.next
		select {
		case f.read <- r:
		case <-f.ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// reply reads the next reply of a shard, on whichever node leads it.
func (f *clusterFeed) reply(id uint64, at string) feedRead {
	for pause := feedLeast; ; pause = min(2*pause, feedMost) {
		node, err := f.nodes.of(f.ctx, id)
		if err == nil {
			var next string
			var changes []FeedChange
			if next, changes, err = readFeed(f.ctx, node, at); err == nil {
				return feedRead{shard: id, next: next, changes: changes}
			}
			f.nodes.suspect(id, node)
		}
		if f.ctx.Err() != nil {
			return feedRead{shard: id, next: at, err: f.ctx.Err()}
		}
		if err = feedError(err); err != nil {
			return feedRead{shard: id, next: at, err: err}
		}
		feedPause(f.ctx, pause)
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
}

// look asks the cluster for its shards.
func (n *feedNodes) look(ctx context.Context) (ids []uint64, err error) {
	shards, err := n.find(ctx).Result()
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		for _, node := range shard.Nodes {
			if node.Role != "master" || node.Health != "online" {
				continue
			}
			client := n.client(&node)
			name, err := client.Do(ctx, "CLUSTER", "MYSHARDID").Text()
			if err != nil {
				return nil, err
			}
			id, err := strconv.ParseUint(strings.TrimLeft(name, "0"), 16, 64)
			if err != nil {
				return nil, fmt.Errorf("client: CLUSTER MYSHARDID: %w", err)
			}
			n.mu.Lock()
			n.leads[id] = client
			n.mu.Unlock()
			ids = append(ids, id)
		}
	}
	return ids, nil
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
	if due {
		if _, err := n.look(ctx); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c = n.leads[shard]; c == nil {
		return nil, errNoLeader
	}
	return c, nil
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
	for _, c := range n.byAddr {
		_ = c.Close()
	}
}
