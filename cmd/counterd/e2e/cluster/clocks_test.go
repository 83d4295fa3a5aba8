// Scenario: clocks of running nodes are set, each by itself.

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// clockJumps are how far clocks are set off: by a second, as a time server does, and by years, as a machine without a battery has them.
var clockJumps = []time.Duration{time.Second, -time.Second, time.Hour, -time.Hour, 25 * time.Hour, -25 * time.Hour, 300 * 24 * time.Hour, -300 * 24 * time.Hour, -20 * 365 * 24 * time.Hour, 0}

// TestClusterClocks sets the clocks of running nodes, ahead and back, while clients add. No primary changes by that. Then primaries with
// such clocks are killed, start with another one, and roles are handed over: no acknowledged increment is gone, no numbered one counted twice, and the nodes of a
// shard hold the same, in columns that count in a window and that decay, too.
func TestClusterClocks(t *testing.T) {
	t.Parallel() // it waits most of the time
	rng, _ := harness.Random(t)
	// 15 s: a busy machine must not take a lease, or the test could not tell that a clock took none.
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 15 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	first := harness.DialAddr(t, "tcp", c.nodes[0].Addr)
	first.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=1h/5m", "of=repost")
	first.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "heat", "decay=6h", "of=repost", "top=20")
	first.Close()
	c.fill(1000)
	l, err := c.startLoad(rng, 3, 2, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	epochs := func() (list []string) {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Shards {
			list = append(list, strconv.FormatUint(s.Epoch, 10))
		}
		return list
	}
	set := func() bool {
		for _, n := range c.nodes {
			if rng.IntN(2) == 0 && !n.SetClock(one(rng, clockJumps)) {
				return false
			}
		}
		return true
	}
	before := strings.Join(epochs(), " ")
	for range 8 {
		if !set() {
			return
		}
		more := l.acked() + 50
		harness.Eventually(t, time.Minute, "clients get on", func() bool { return l.acked() >= more })
	}
	if now := strings.Join(epochs(), " "); now != before {
		t.Errorf("epochs were %s and are %s: a primary changed because a clock was set", before, now)
	}
	for round := range 4 {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		shard := one(rng, m.Shards)
		if round%2 == 0 {
			back := c.killed(c.primary(m, shard))
			time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
			back()
		} else if reply := harness.Ask(one(rng, c.replicas(m, shard)).Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
			t.Errorf("CLUSTER FAILOVER: %q", reply)
		}
		if !set() {
			return
		}
		c.healthy(2 * time.Minute)
		if _, err := l.check(); err != nil {
			t.Fatal(err)
		}
	}
	l.end()
	if err := c.alike(time.Minute); err != nil {
		t.Error(err)
	}
	c.inWindows(rng)
	t.Logf("%d increments were acknowledged; clients saw %s", l.acked(), l.errors())
}

// inWindows checks that no post has more additions in the window, or a larger heat, than it has additions.
func (c *cluster) inWindows(rng *rand.Rand) {
	c.t.Helper()
	conn := harness.DialAddr(c.t, "tcp", fmt.Sprintf("%s:%d", c.nodes[0].host, one(rng, c.nodes).forward))
	defer conn.Close()
	seen := 0
	for _, column := range []string{"recent", "heat"} {
		v := conn.Do("COUNTER.FIND", "weibo", "WHERE", column, ">", "0", "COLUMNS", column, "repost", "LIMIT", "10000")
		for _, post := range v.List {
			if len(post.List) != 3 {
				c.t.Fatalf("COUNTER.FIND answered %s", v.Raw)
			}
			if part, all := post.List[1].N, post.List[2].N; part > all {
				c.t.Errorf("post %d: %s is %d, and repost %d", post.List[0].N, column, part, all)
			}
			seen++
		}
	}
	if seen == 0 {
		c.t.Error("no post has additions in a window")
	}
}
