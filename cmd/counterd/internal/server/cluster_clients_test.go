// Scenario: client libraries use a cluster whose groups of hash slots move and whose nodes change roles.

package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/counter"
	counting "github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// Libraries that speak with a cluster, and nodes that are told their parts by the test.

// goRedis is a cluster client that knows one node.
func goRedis(t testing.TB, k *testCluster, change func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	options := &redis.ClusterOptions{Addrs: []string{fmt.Sprint("127.0.0.1:", k.nodes[0].Port)}, ReadTimeout: patience, DialTimeout: patience, PoolTimeout: patience}
	if change != nil {
		change(options)
	}
	c := redis.NewClusterClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestClusterGoRedis: what users of its cluster client do, and all of it while groups move: no error, and no increment
// lost or counted twice.
func TestClusterGoRedis(t *testing.T) {
	t.Parallel()
	k := startCluster(t, nil, 1, 2, 1)
	c, ctx := goRedis(t, k, nil), t.Context()
	key := func(mid uint64, suffix string) string { return fmt.Sprintf("{%d}.%s", mid, suffix) }
	mids := make([]uint64, 60)
	for i := range mids {
		mids[i] = 19089006000 + uint64(i)
	}
	for i, mid := range mids {
		if n, err := c.IncrBy(ctx, key(mid, "cntrn"), int64(i)).Result(); err != nil || n != int64(i) {
			t.Fatalf("%d: %d, %v", mid, n, err)
		}
	}
	pipe := c.Pipeline()
	var got []*redis.StringCmd
	for _, mid := range mids {
		got = append(got, pipe.HGet(ctx, fmt.Sprint(mid), "repost"))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for i, cmd := range got {
		if cmd.Val() != fmt.Sprint(i) {
			t.Errorf("%d is %q, want %d", mids[i], cmd.Val(), i)
		}
	}
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.IncrBy(ctx, key(mids[0], "cntcm"), 5)
		p.Get(ctx, key(mids[0], "cntrn"))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, key(mids[1], "cntrn")).Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, key(mids[1], "cntrn"), n+10, 0).Err() })
		return err
	}, key(mids[1], "cntrn"))
	if n, _ := c.Get(ctx, key(mids[1], "cntrn")).Int(); err != nil || n != 11 {
		t.Errorf("WATCH: %d, %v", n, err)
	}
	if err := c.IncrBy(ctx, "19089006004.cntrn", 1).Err(); err == nil || !strings.Contains(err.Error(), "write {19089006004}.cntrn") {
		t.Errorf("a key that is hashed as a whole: %v", err)
	}

	var stop atomic.Bool
	var all sync.WaitGroup
	var sums [4]int64
	for w := range sums {
		all.Go(func() {
			for i := w; !stop.Load(); i++ {
				mid := mids[i%len(mids)]
				var err error
				switch i % 3 {
				case 0:
					err = c.IncrBy(ctx, key(mid, "cntcm"), 1).Err()
				case 1:
					p := c.Pipeline()
					p.IncrBy(ctx, key(mid, "cntcm"), 1)
					p.Get(ctx, key(mids[(i+7)%len(mids)], "cntcm"))
					if _, err = p.Exec(ctx); errors.Is(err, redis.Nil) {
						err = nil
					}
				case 2:
					_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error { p.IncrBy(ctx, key(mid, "cntcm"), 1); return nil })
				}
				if err != nil {
					t.Errorf("%d: %v", mid, err)
					return
				}
				sums[w]++
			}
		})
	}
	for i := range 12 {
		k.move(slot.Group(mids[5*i]), i%3)
		time.Sleep(2 * time.Millisecond)
	}
	stop.Store(true)
	all.Wait()
	want := int64(5) // of the transaction
	for _, n := range sums {
		want += n
	}
	sum := int64(0)
	for _, mid := range mids {
		n, err := c.Get(ctx, key(mid, "cntcm")).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Error(err)
		}
		sum += n
	}
	if sum != want {
		t.Errorf("%d were counted, want %d", sum, want)
	}
	checkGoRedisReads(ctx, t, k, mids)
}

// checkGoRedisReads reads from replicas, which have nothing here: that they answer is seen by that.
func checkGoRedisReads(ctx context.Context, t *testing.T, k *testCluster, mids []uint64) {
	c := goRedis(t, k, func(o *redis.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true })
	for _, mid := range mids {
		if err := c.Get(ctx, fmt.Sprintf("{%d}.cntrn", mid)).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Error(err)
		}
	}
}

// TestClusterGoClient: the Go client counts through a cluster whose groups move: single additions, batches and sums of
// many slots, pages of many owners. Between moves, as these here leave behind what was done for producers.
func TestClusterGoClient(t *testing.T) {
	t.Parallel()
	k := startCluster(t, nil, 1, 1, 1)
	ctx := t.Context()
	c, err := counting.New(goRedis(t, k, nil), counting.Options{Counter: "weibo", RetryBurst: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	mids := make([]uint64, 100)
	for i := range mids {
		mids[i] = 19089006000 + uint64(i)
	}
	sums, err := c.NewAggregator(counting.AggregatorOptions{Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var made [3]int64
	work := func(w int, once func(i int) (int64, error)) {
		all.Go(func() {
			for i := range 60 {
				n, err := once(i)
				if made[w] += n; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range 4 {
		work(0, func(i int) (int64, error) {
			_, err := c.Add(ctx, mids[i%len(mids)], "repost", 2)
			return 2, err
		})
		work(1, func(i int) (int64, error) {
			b := c.Batch()
			for j := range 40 {
				b.Add(mids[(i+j*7)%len(mids)], []string{"repost", "cntcm"}[j%2], 1)
			}
			results, err := b.Do(ctx)
			for _, r := range results {
				if r.Err != nil || r.Value < 1 {
					t.Errorf("an addition of a batch: %+v", r)
				}
			}
			return 40, err
		})
		work(2, func(i int) (int64, error) {
			err := sums.Add(ctx, mids[i%len(mids)], "comment", 3)
			if i%50 == 49 {
				rows, perr := c.Page(ctx, mids, "repost", "comment")
				if len(rows) != len(mids) || rows[5].Mid != mids[5] {
					t.Errorf("a page has %d rows", len(rows))
				}
				err = errors.Join(err, perr)
			}
			return 3, err
		})
		all.Wait()
		if err := sums.Flush(ctx); err != nil {
			t.Error(err)
		}
		for i := range 3 {
			k.move(slot.Group(mids[5*(3*round+i)]), i)
		}
	}
	if err := sums.Close(ctx); err != nil {
		t.Error(err)
	}
	rows, err := c.Page(ctx, mids, "repost", "comment")
	if err != nil {
		t.Fatal(err)
	}
	got := int64(0)
	for _, row := range rows {
		if row.Exists {
			got += row.Values[0] + row.Values[1]
		}
	}
	if want := made[0] + made[1] + made[2]; got != want {
		t.Errorf("%d were counted, want %d", got, want)
	}
	for i := range rows {
		rows[i].Values = []int64{int64(i), 1000 + int64(i)}
	}
	if n, err := c.SetRows(ctx, rows, "repost", "comment"); n != len(rows) || err != nil {
		t.Errorf("SetRows: %d posts, %v", n, err)
	}
	again, err := c.Page(ctx, mids, "repost", "comment")
	for i := range again {
		if err != nil || again[i].Values[0] != int64(i) || again[i].Values[1] != 1000+int64(i) {
			t.Fatalf("post %d: %+v, %v", i, again[i], err)
		}
	}
}

// TestKeysInSlot: posts are listed by slot whatever group the slot is of, and no others, in stores made of groups and in
// others.
func TestKeysInSlot(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	t.Parallel()
	for _, slotGroups := range []bool{true, false} {
		srv := wireServeStore(t, "", counter.Options{SlotGroups: slotGroups}, func(c *config.Config) {
			c.Port, c.Bind, c.AppendOnly = freeport.Take(t), []string{"127.0.0.1"}, true
			c.Cluster.Enabled, c.Cluster.Name, c.Cluster.Etcd = true, "test", []string{"http://127.0.0.1:1"}
		})
		c := wireDial(t, srv, 2)
		bySlot := map[uint16][]string{slot.Of(0): nil, slot.Slots - 1: nil}
		for n := range uint64(400) {
			mid := n * 7919
			bySlot[slot.Of(mid)] = append(bySlot[slot.Of(mid)], strconv.FormatUint(mid, 10))
			if err := srv.Store().Set(fmt.Sprintf("{%d}.cntrn", mid), 1); err != nil {
				t.Fatal(err)
			}
		}
		for of, keys := range bySlot {
			c.want(fmt.Sprint("CLUSTER COUNTKEYSINSLOT ", of), fmt.Sprint(":", len(keys)))
			for _, n := range []int{0, 1, 100} {
				var want []string
				for _, key := range keys[:min(n, len(keys))] {
					want = append(want, strconv.Quote(key))
				}
				c.want(fmt.Sprint("CLUSTER GETKEYSINSLOT ", of, " ", n), "["+strings.Join(want, " ")+"]")
			}
		}
	}
}

// TestClusterStarted: a node that was started a moment ago has clients wait for the map: libraries repeat a refusal a few times at once, and
// then give up.
func TestClusterStarted(t *testing.T) {
	t.Parallel()
	k := startCluster(t, nil, 1)
	k.srv[0].cluster.SetStanding(&cluster.Standing{Self: k.nodes[0].ID, Reads: route.ErrDown, Writes: route.ErrDown})
	c, began := k.dial(0, 2), time.Now()
	c.want("INCR {7}.cntrn", "-"+route.ErrDown)
	if waited := time.Since(began); waited < waitForSlot {
		t.Errorf("refused after %v, want %v", waited, waitForSlot)
	}
	k.stand()
	c.want("INCR {7}.cntrn", ":1")
}
