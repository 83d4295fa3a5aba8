// Scenario: consumers of the feed of changes, with each kind of sink, follow a cluster beside moves, failovers and kills.
package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/cmd/counterd/e2e/consumers"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// TestFeedCluster kills primaries, hands their role over, and moves groups of hash slots, while consumers of the feed and their sinks are killed: each
// consumer gets each change of a post once and in order, and has in the end the posts of the cluster. The cursor of each shard follows one of them.
//
//	go test ./cmd/counterd/e2e/cluster -run FeedCluster -feed-rounds 100 -v -timeout 2h
func TestFeedCluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	nodes := &consumers.Nodes{Cluster: true, Counter: "weibo", Cursor: "search"}
	for _, n := range c.nodes {
		nodes.Addrs = append(nodes.Addrs, n.Addr)
		nodes.Writes = append(nodes.Writes, net.JoinHostPort(n.host, strconv.Itoa(n.forward)))
	}
	s := consumers.NewSet(t, rng, nodes)
	var did feedFaults
	for round := range max(3, *consumers.RoundsFlag) {
		did.strike(c, s, round)
		c.healthy(2 * time.Minute)
		s.More()
	}
	s.Same()
	t.Logf("%d failovers: %d planned, %d behind kill -9; %d moves; %d further nodes killed", did.planned+did.unplanned, did.planned, did.unplanned, did.moves, did.kills)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs, DisableIdentity: true})
	defer rdb.Close()
	if err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.Do(ctx, "COUNTER.CURSOR", "GET", "search").Err()
	}); err != nil {
		t.Errorf("a shard has no cursor: %v", err)
	}
	for _, want := range []struct {
		args   []string
		lines  int
		status int
	}{
		{[]string{"cursors", nodes.Addrs[0]}, 3, 0}, {[]string{"cursors", nodes.Addrs[1], "--delete", "search"}, 1, 0},
		{[]string{"cursors", nodes.Addrs[0]}, 1, 0}, {[]string{"cursors", nodes.Addrs[0], "--delete", "search"}, 1, 1},
	} {
		if out, status := harness.Counterctl(t, want.args...); status != want.status || strings.Count(out, "\n") != want.lines {
			t.Errorf("counterctl %q: status %d, %s", want.args, status, out)
		}
	}
}

// feedFaults are the faults of the nodes, counted.
type feedFaults struct{ planned, unplanned, moves, kills int }

// strike hurts a shard, and consumers meanwhile. The shards have their turns.
func (f *feedFaults) strike(c *cluster, s *consumers.Set, round int) {
	m, err := c.load()
	if err != nil {
		c.t.Fatal(err)
	}
	shard := m.Shards[round/4%2]
	p := c.primary(m, shard)
	switch round % 4 {
	case 0:
		f.unplanned++
		p.Kill()
		s.Hurt(2)
		harness.Eventually(c.t, time.Minute, "another node leads", func() bool {
			now, err := c.load()
			return err == nil && now.Shard(shard.ID).Primary != shard.Primary && now.Shard(shard.ID).Primary != ""
		})
		s.Hurt(1)
		c.start(p)
	case 1:
		f.moves++
		f.move(c, s, m)
	case 2:
		f.planned++
		if reply := harness.Ask(c.replicas(m, shard)[0].Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
			c.t.Fatalf("CLUSTER FAILOVER: %q", reply)
		}
		s.Hurt(2)
	case 3:
		f.kills += 2
		p.Kill()
		c.start(p)
		s.Hurt(2)
		r := c.replicas(m, shard)[0]
		r.Kill()
		s.Hurt(1)
		c.start(r)
	}
}

// move moves all groups of a shard, which the other one gives back in the next such round.
func (f *feedFaults) move(c *cluster, s *consumers.Set, m *topology.Map) {
	from, to := m.Shards[0], m.Shards[1]
	if from.Groups.Empty() {
		from, to = to, from
	}
	var moving sync.WaitGroup
	moving.Go(func() {
		harness.WantCtl(c.t, 0, []string{"cluster", "move", "--etcd", c.endpoints(), "--name", c.name, "--groups", from.Groups.String(), "--to", fmt.Sprint(to.ID), "--yes", "--wait", "2m"}, "moved")
	})
	s.Hurt(2)
	moving.Wait()
}

// start starts a node again.
func (c *cluster) start(p *process) {
	c.t.Helper()
	if err := p.start(); err != nil {
		c.t.Fatal(err)
	}
}
