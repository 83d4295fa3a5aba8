// Scenario: groups move to a shard whose clock is days ahead of the time of its log.

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestClusterMoveBehind moves groups to a shard whose clocks jump three days ahead. The move waits, its log says so once, and a planned failover of the shard changes
// nothing about that. Clients add meanwhile. When the clocks are right again, the move ends by itself, and each post has its additions once, also in the window.
func TestClusterMoveBehind(t *testing.T) {
	t.Parallel() // it waits most of the time
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 15 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	from, to := m.Shards[0], m.Shards[1]
	shard := append(c.replicas(m, to), c.primary(m, to))
	conn := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", c.nodes[0].forward))
	conn.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=1h/5m", "of=repost")
	const base, posts = uint64(7) << 50, 500
	added := make([]int64, posts)
	add := func(i int) {
		added[i]++
		conn.Want(fmt.Sprintf(":%d\r\n", added[i]), "INCR", fmt.Sprintf("%d.n", base+uint64(i)))
	}
	for i := range posts {
		add(i)
	}
	for _, n := range shard {
		if !n.SetClock(3 * 24 * time.Hour) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var moving sync.WaitGroup
	moving.Go(func() {
		if err := c.move(ctx, rng.Uint64(), from, to); err != nil {
			t.Error(err)
		}
	})
	const waits, goesOn = "a move of groups is waiting", "a move of groups goes on"
	said := func(text string) (n int) {
		for _, p := range shard {
			n += strings.Count(p.Log.String(), text)
		}
		return n
	}
	harness.Eventually(t, time.Minute, "the move waits", func() bool { return said(waits) == 1 })
	for range 200 {
		add(rng.IntN(posts))
	}
	if reply := harness.Ask(c.replicas(m, to)[0].Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
		t.Errorf("CLUSTER FAILOVER: %q", reply)
	}
	harness.Eventually(t, time.Minute, "the move waits at the next primary", func() bool { return said(waits) == 2 })
	for range 200 {
		add(rng.IntN(posts))
	}
	time.Sleep(2 * lastPause)
	if n := said(waits); n != 2 || said(goesOn) != 0 {
		t.Errorf("%d lines say that the move waits, and %d that it goes on", n, said(goesOn))
	}
	for _, n := range shard {
		n.SetClock(0)
	}
	moving.Wait()
	if n := said(goesOn); n != 1 {
		t.Errorf("%d lines say that the move goes on", n)
	}
	c.healthy(time.Minute)
	for i, n := range added {
		row := conn.Do("COUNTER.MGET", "weibo", strconv.FormatUint(base+uint64(i), 10), "COLUMNS", "repost", "recent")
		if len(row.List) != 1 || len(row.List[0].List) != 2 || row.List[0].List[0].N != n {
			t.Fatalf("post %d has %s, want %d additions", base+uint64(i), row.Raw, n)
		}
		if got := row.List[0].List[1].N; got != n {
			t.Errorf("post %d has %d additions in the window, want %d", base+uint64(i), got, n)
		}
	}
	if err := c.alike(time.Minute); err != nil {
		t.Error(err)
	}
}

// lastPause is the longest pause between two attempts of a move.
const lastPause = 2 * time.Second
