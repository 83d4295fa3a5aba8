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

// farWatches is how many times -etcd-idle are watched until in one of them no node loses its lease.
const farWatches = 12

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
	// state has the epochs of the shards and the number of leases that each node has lost. Both stay while the cluster is left alone.
	state := func() string {
		if m, err = c.load(); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, s := range m.Shards {
			text += fmt.Sprintf("shard %d: epoch %d; ", s.ID, s.Epoch)
		}
		for _, n := range c.nodes {
			text += fmt.Sprintf("%s lost %d leases; ", n.Addr, strings.Count(n.Log.String(), "lease lost"))
		}
		return text
	}
	// A machine that is busy with other tests may stall a node for longer than its lease lasts. A distance that costs leases does so all the time.
	for try, before := 1, state(); ; try++ {
		time.Sleep(*farIdleFlag)
		now := state()
		if now == before {
			break
		}
		t.Logf("watch %d: %s, and then %s", try, before, now)
		if before = now; try == farWatches {
			t.Fatalf("leases were lost, or primaries changed by themselves, in all of %d times %v", try, *farIdleFlag)
		}
	}

	c.healthy(time.Minute)
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
