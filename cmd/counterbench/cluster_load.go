package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/counter/client"
)

const (
	clusterWriters = 4 // goroutines that increment by the Go client
	clusterPlain   = 2 // connections that increment by the forward port
	clusterReaders = 2 // goroutines that read pages
	clusterPage    = 20
	clusterColumn  = "comments"
)

// clusterLoad is clients of a cluster: their requests, and the replies.
type clusterLoad struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	posts  []uint64
	before int64 // sum of the column when the load began

	writers, plain, readers clientStats
}

// clientStats is the counts of replies to clients of one kind.
type clientStats struct {
	name    string
	did     atomic.Int64 // acknowledged
	inDoubt atomic.Int64 // nobody could tell whether it was done
	errors  atomic.Int64 // and for certain was not done

	mu    sync.Mutex
	took  *hdrhistogram.Histogram // guarded by mu; microseconds
	first error                   // guarded by mu
}

func newClientStats(name string) clientStats {
	return clientStats{name: name, took: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
}

// note counts one request that began at a moment.
func (s *clientStats) note(began time.Time, err error) {
	s.mu.Lock()
	_ = s.took.RecordValue(max(1, time.Since(began).Microseconds()))
	if err != nil && s.first == nil {
		s.first = err
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.did.Add(1)
	case client.IsInDoubt(err):
		s.inDoubt.Add(1)
	default:
		s.errors.Add(1)
	}
}

// startClusterLoad begins to read and increment posts.
func startClusterLoad(ctx context.Context, rdb *redis.ClusterClient, forward string, posts []uint64) (*clusterLoad, error) {
	before, err := clusterSum(ctx, rdb)
	if err != nil {
		return nil, err
	}
	c, err := client.New(rdb, client.Options{Counter: "reddit"})
	if err != nil {
		return nil, err
	}
	l := &clusterLoad{posts: posts, before: before, writers: newClientStats("Go client"), plain: newClientStats("plain, forwarded"), readers: newClientStats("pages")}
	l.ctx, l.cancel = context.WithCancel(ctx)
	for range clusterWriters {
		l.group.Go(func() {
			for l.ctx.Err() == nil {
				began := time.Now()
				// Requests that have begun are finished when the load ends, as the sums must be exact.
				_, err := c.Incr(ctx, l.post(), clusterColumn)
				l.writers.note(began, err)
			}
		})
	}
	for range clusterPlain {
		l.group.Go(func() { l.forwarded(ctx, forward) })
	}
	for range clusterReaders {
		l.group.Go(func() {
			for l.ctx.Err() == nil {
				mids := make([]uint64, clusterPage)
				for i := range mids {
					mids[i] = l.post()
				}
				began := time.Now()
				_, err := c.Page(ctx, mids)
				l.readers.note(began, err)
			}
		})
	}
	return l, nil
}

// post is one of them: the newer the likelier.
func (l *clusterLoad) post() uint64 {
	return l.posts[len(l.posts)-1-int(float64(len(l.posts))*rand.Float64()*rand.Float64())]
}

// forwarded increments by the forward port of a node, as a client that knows of no cluster and repeats nothing.
func (l *clusterLoad) forwarded(ctx context.Context, addr string) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, ReadTimeout: 30 * time.Second})
	defer rdb.Close()
	for l.ctx.Err() == nil {
		began := time.Now()
		err := rdb.Incr(ctx, strconv.FormatUint(l.post(), 10)+"."+clusterColumn).Err()
		l.plain.note(began, err)
	}
}

// stop ends the load and waits for the requests in flight.
func (l *clusterLoad) stop() {
	l.cancel()
	l.group.Wait()
}

// clusterSum adds up the column over all posts, which any node answers for all shards.
func clusterSum(ctx context.Context, rdb *redis.ClusterClient) (int64, error) {
	v, err := rdb.Do(ctx, "COUNTER.SUM", "reddit", clusterColumn).Result()
	if list, ok := v.([]any); ok && err == nil && len(list) > 0 {
		v = list[0]
	}
	if err != nil {
		return 0, fmt.Errorf("COUNTER.SUM: %w", err)
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}

// errSums says that increments were lost or doubled.
var errSums = errors.New("the sums are not what was acknowledged")

// report prints what clients saw, and compares the sums.
func (l *clusterLoad) report(ctx context.Context, w io.Writer, rdb *redis.ClusterClient) error {
	fmt.Fprintf(w, "\nwhat clients saw   %12s %8s %9s %10s %10s %10s\n", "answered", "errors", "in doubt", "p50", "p99", "longest")
	for _, s := range []*clientStats{&l.writers, &l.plain, &l.readers} {
		at := func(q float64) string {
			return report.Duration(time.Duration(s.took.ValueAtQuantile(q)) * time.Microsecond)
		}
		fmt.Fprintf(w, "  %-16s %12s %8d %9d %10s %10s %10s\n", s.name, report.Int(s.did.Load()), s.errors.Load(), s.inDoubt.Load(), at(50), at(99), at(100))
		if s.first != nil {
			fmt.Fprintf(w, "      the first error: %v\n", s.first)
		}
	}
	after, err := clusterSum(ctx, rdb)
	if err != nil {
		return err
	}
	acked := l.writers.did.Load() + l.plain.did.Load()
	doubt := l.writers.inDoubt.Load() + l.plain.inDoubt.Load()
	grown := after - l.before
	fmt.Fprintf(w, "\nincrements acknowledged %s, in doubt %d; the sum of all posts grew by %s", report.Int(acked), doubt, report.Int(grown))
	if grown < acked || grown > acked+doubt {
		fmt.Fprintln(w)
		return fmt.Errorf("%w: %d acknowledged, %d in doubt, %d there", errSums, acked, doubt, grown)
	}
	if doubt == 0 {
		fmt.Fprintln(w, ": exact")
	} else {
		fmt.Fprintln(w, ": none lost, none doubled")
	}
	return nil
}
