// Scenario: a client follows the feeds of all shards while groups of hash slots move between them.

package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/cmd/internal/topology"
	counting "github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/slot"
)

// TestClusterFeed has half of the groups move to another shard and back while clients increment posts. A consumer that ends now and then, and
// goes on from its last position, sees each value of each post once, in order, with the value before.
func TestClusterFeed(t *testing.T) {
	t.Parallel()
	k := joinTwoShards(t)
	conns := [2]*wireClient{wireDial(t, k.nodes[0], 2), wireDial(t, k.nodes[1], 2)}
	for _, c := range conns {
		c.want("CONFIG SET appendfsync always", "+OK")
	}
	conns[0].want("ALTER COUNTER weibo old=on", "+OK")
	for _, c := range conns {
		until(t, "old values on both shards", func() bool { return strings.Contains(c.do("SCHEMA").String(), "old=on") })
	}
	const posts = 64
	var written [posts]int64
	var stop atomic.Bool
	var wg, writer sync.WaitGroup
	writer.Go(func() {
		at := 0
		for n := 0; !stop.Load(); n++ {
			for range 100 {
				got := conns[at].do(fmt.Sprintf("INCR {%d}.cntcm", n%posts)).String()
				if strings.HasPrefix(got, "-MOVED") {
					at = 1 - at
					continue
				}
				if written[n%posts]++; got != fmt.Sprintf(":%d", written[n%posts]) {
					t.Errorf("INCR of %d: got %s, want %d", n%posts, got, written[n%posts])
				}
				break
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fmt.Sprint("127.0.0.1:", k.nodes[0].config.Get().Port)}})
	defer rdb.Close()
	c, err := counting.New(rdb, counting.Options{Counter: "weibo"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var gains atomic.Int64
	// consume reads from the beginning, and begins again behind every 300th change. total counts the values.
	consume := func(total *atomic.Int64) {
		var seen [posts]int64
		position := counting.FeedOldest
		for ctx.Err() == nil {
			n := 0
			for change, err := range c.Feed(ctx, position, counting.FeedWithOld()) {
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("the feed ended: %v", err)
						cancel()
					}
					return
				}
				for _, p := range change.Parts {
					if p.Kind == "gain" {
						gains.Add(1)
						if p.From == 0 || p.Offset == 0 {
							t.Errorf("a gain does not name its source: %+v", p)
						}
					}
					if p.Kind != "set" {
						continue
					}
					old := p.Old
					if old == nil || (len(old.Values) == 0) != (seen[p.Mid] == 0) || len(old.Values) > 0 && old.Values[0] != seen[p.Mid] {
						t.Errorf("post %d had %+v, want %d; of shard %d at %s", p.Mid, old, seen[p.Mid], change.Shard, change.Position)
						cancel()
						return
					}
					if seen[p.Mid]++; p.Values[0] != seen[p.Mid] {
						t.Errorf("post %d has %d, want %d; of shard %d at %s", p.Mid, p.Values[0], seen[p.Mid], change.Shard, change.Position)
						cancel()
						return
					}
					total.Add(1)
				}
				position = change.Position
				if n++; n == 300 {
					break // and again
				}
			}
		}
	}
	var beside, behind atomic.Int64
	wg.Go(func() { consume(&beside) })
	var half slot.Set
	for g := range slot.Groups / 2 {
		half.Add(uint8(2 * g))
	}
	for i := range 4 {
		from, to := topology.ShardID(1+i%2), topology.ShardID(2-i%2)
		id := fmt.Sprint("move", i)
		k.do(func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, id, half, from, to, time.Now())
		})
		k.await("the groups have moved", func() bool { m := k.view(); return m.Move(id) == nil && m.Owner(0).ID == to })
	}
	stop.Store(true)
	writer.Wait()
	sum := int64(0)
	for _, n := range written {
		sum += n
	}
	k.await("all changes were seen", func() bool { return ctx.Err() != nil || beside.Load() == sum })
	// All at once: the feed of the second shard begins with a gain, long before the first one's has come to its end.
	wg.Go(func() { consume(&behind) })
	k.await("all changes were seen again", func() bool { return ctx.Err() != nil || behind.Load() == sum })
	cancel()
	wg.Wait()
	if gains.Load() < 8 {
		t.Errorf("%d gains, want 4 at least for each consumer", gains.Load())
	}
}
