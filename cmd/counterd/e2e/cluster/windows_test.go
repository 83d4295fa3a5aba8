// Scenario: a column that counts in a window of time, in a cluster whose groups move, roles are handed over and primaries are killed.

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// windowCluster is a cluster with the column recent, whose window holds all additions of a test.
type windowCluster struct {
	*cluster
	load *clusterLoad
	from []uint64 // the first of the new posts of each plain writer
}

// TestClusterWindow: additions directly behind ADD COLUMN count on each shard. Then groups move, a shard's role is handed over
// and primaries are killed while writers add: each post has as many additions in the window as its value says, so have all posts together, and
// COUNTER.TOP of all shards has the posts that a look at each of them finds, also while groups are on their way.
func TestClusterWindow(t *testing.T) {
	t.Parallel() // it waits most of the time
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 3 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	w := &windowCluster{cluster: c}
	c.addWindow()
	var err error
	if w.load, err = c.startLoad(rng, 3, 2, 2*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for i := range w.load.plain {
		w.from = append(w.from, 3<<56+uint64(i)<<40)
	}
	for round := range 6 {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		from, to := m.Shards[round%2], m.Shards[1-round%2]
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		var moving sync.WaitGroup
		moving.Go(func() {
			if err := c.move(ctx, rng.Uint64(), from, to); err != nil {
				t.Error(err)
			}
		})
		w.look(1 + rng.IntN(3))
		switch round % 3 {
		case 1:
			if reply := harness.Ask(c.replicas(m, to)[0].Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
				t.Errorf("CLUSTER FAILOVER: %q", reply)
			}
		case 2:
			c.killed(c.primary(m, one(rng, m.Shards)))()
		}
		w.look(1 + rng.IntN(3))
		moving.Wait()
		cancel()
		c.healthy(2 * time.Minute)
		w.look(1)
		if _, err := w.load.check(); err != nil {
			t.Fatal(err)
		}
	}
	w.load.end()
	t.Logf("%d additions were acknowledged; errors: %s", w.load.acked(), w.load.errors())
}

// addWindow adds the column, and additions directly behind it on each shard.
func (c *cluster) addWindow() {
	c.t.Helper()
	m, err := c.load()
	if err != nil {
		c.t.Fatal(err)
	}
	for i, shard := range m.Shards {
		mid := uint64(5 << 56)
		for ; !shard.Groups.Has(groupOf(mid)); mid++ {
		}
		link := harness.DialAddr(c.t, "tcp", c.primary(m, shard).Addr)
		if i == 0 {
			link.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=360d/6d", "of=repost")
		} else if got := link.Do("GET", recentKey(mid)); !got.Null { // the other shards have it when the statement is answered
			c.t.Fatalf("shard %d has no column behind its OK: %s", shard.ID, got)
		}
		link.Want(":7\r\n", "INCRBY", nKey(mid), "7")
		link.Want("$1\r\n7\r\n", "GET", recentKey(mid))
		link.Want(":1\r\n", "DEL", "{"+strconv.FormatUint(mid, 10)+"}")
		link.Close()
	}
}

func recentKey(mid uint64) string { return "{" + strconv.FormatUint(mid, 10) + "}.recent" }

// mids are all posts of the writers, which wait.
func (w *windowCluster) mids() (list []uint64) {
	for k, p := range w.load.plain {
		for i := range p.posts {
			list = append(list, p.post(i))
		}
		for mid := w.from[k]; mid < p.fresh(len(p.fates)); mid++ { // those that were checked, too
			list = append(list, mid)
		}
	}
	for _, n := range w.load.numbered {
		for i := range n.posts {
			list = append(list, n.base+uint64(i)*7919)
		}
	}
	return list
}

// ask has the forward port of any node answer, and waits for it where a shard is without a primary.
func (w *windowCluster) ask(conn *clusterConn, args ...string) (v resptest.Value) {
	w.t.Helper()
	at := 0
	harness.Eventually(w.t, time.Minute, fmt.Sprint(args), func() bool {
		n := w.nodes[at%len(w.nodes)]
		at++
		got, o := conn.once(net.JoinHostPort(n.host, strconv.Itoa(n.forward)), args...)
		v = got
		return o == outMade && got.Kind != '-'
	})
	return v
}

// look compares the answers about all posts with those about each, a few times, while nobody writes and groups may move.
func (w *windowCluster) look(times int) {
	w.t.Helper()
	for range times {
		time.Sleep(100 * time.Millisecond)
		w.compare()
	}
}

func (w *windowCluster) compare() {
	w.t.Helper()
	w.load.pause.Lock()
	defer w.load.pause.Unlock()
	conn := &clusterConn{seeds: w.load.plain[0].seeds, timeout: 5 * time.Second, rng: w.load.rng}
	defer conn.hangUp()
	type post struct{ n, mid int64 }
	var posts []post
	sum := int64(0)
	for _, mid := range w.mids() {
		key := strconv.FormatUint(mid, 10)
		row := w.ask(conn, "COUNTER.MGET", "weibo", key, "COLUMNS", "repost", "recent")
		if len(row.List) != 1 || row.List[0].Null {
			continue
		}
		value, recent := row.List[0].List[0].N, row.List[0].List[1].N
		if value != recent {
			w.t.Fatalf("post %d has %d additions in the window, want its value, %d", mid, recent, value)
		}
		posts = append(posts, post{recent, int64(mid)})
		sum += recent
	}
	for _, column := range []string{"repost", "recent"} {
		if got := w.ask(conn, "COUNTER.SUM", "weibo", column); got.N != sum {
			w.t.Fatalf("the sum of %s is %d, want %d", column, got.N, sum)
		}
	}
	slices.SortFunc(posts, func(a, b post) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(b.mid, a.mid)) })
	k := 1 + w.load.rng.IntN(40)
	top := w.ask(conn, "COUNTER.TOP", "weibo", "recent", strconv.Itoa(k))
	if want := min(k, len(posts)); len(top.List) != want {
		w.t.Fatalf("the top %d has %d posts, want %d", k, len(top.List), want)
	}
	for i, row := range top.List {
		if got := (post{row.List[1].N, row.List[0].N}); got != posts[i] {
			w.t.Fatalf("number %d of the top %d is %v, want %v", i, k, got, posts[i])
		}
	}
}
