package cluster

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

var (
	farTripFlag   = flag.Duration("etcd-round-trip", 200*time.Millisecond, "between nodes and etcd in TestClusterFarEtcd")
	farJitterFlag = flag.Duration("etcd-jitter", 50*time.Millisecond, "more or less of -etcd-round-trip")
	farIdleFlag   = flag.Duration("etcd-idle", 5*time.Second, "how long TestClusterFarEtcd only watches")
)

// TestClusterFarEtcd runs a cluster whose etcd is 200 ms away. Nobody loses its lease and no primary changes by itself. Planned
// failovers, failovers after kill -9 and moves of groups work, and no increment is lost or made twice.
func TestClusterFarEtcd(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: *nodeTimeoutFlag, fsync: "everysec", roundTrip: *farTripFlag, jitter: *farJitterFlag})
	if !ok {
		return
	}
	c.fill(5000)
	l, err := c.startLoad(rng, 3, 2, 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	epochs := func() (list []uint64) {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Shards {
			list = append(list, s.Epoch)
		}
		return list
	}
	before := fmt.Sprint(epochs())
	time.Sleep(*farIdleFlag)
	if now := fmt.Sprint(epochs()); now != before {
		t.Errorf("epochs were %s and are %s: a primary changed by itself", before, now)
	}
	for _, n := range c.nodes {
		if strings.Contains(n.Log.String(), "lease lost") {
			t.Errorf("the node at %s lost its lease", n.Addr)
		}
	}

	shard := m.Shards[0]
	began := time.Now()
	if reply := harness.Ask(c.replicas(m, shard)[0].Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
		t.Fatalf("CLUSTER FAILOVER: %q", reply)
	}
	planned := time.Since(began)
	c.healthy(time.Minute)

	if m, err = c.load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	began = time.Now()
	if err := c.move(ctx, rng.Uint64(), m.Shards[1], m.Shards[0]); err != nil {
		t.Fatal(err)
	}
	moved := time.Since(began)

	shard = m.Shards[0]
	next := c.mids(m, shard, 1<<20)
	stop := make(chan struct{})
	began = time.Now()
	back := c.killed(c.primary(m, shard))
	killed, ok := c.probe(m, shard, next, began, stop)
	if !ok {
		t.Fatal("no failover")
	}
	back()
	c.healthy(2 * time.Minute)
	found, err := l.check()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("round trip %v +- %v, node timeout %v: planned failover %v, move %v, acknowledged again %v after kill -9; %d posts checked, %d increments; clients saw %s",
		*farTripFlag, *farJitterFlag, c.timeout, planned, moved, killed, found.Checked, l.acked(), l.errors())
}
