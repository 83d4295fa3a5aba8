package cluster

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

var movePostsFlag = flag.Int("move-posts", 20_000, "posts that TestMoveUnderLoad moves")

// moveWriter increments random posts of its own in pipelines, as fast as both nodes answer. It follows MOVED group by group.
type moveWriter struct {
	links  [2]*harness.Conn // to the source and to the destination
	mids   []uint64
	counts []int64 // acknowledged, by post
	owner  [256]int
	acked  atomic.Int64
	worst  atomic.Int64 // ns from the first send of a pipeline until all of it was acknowledged
}

const movePipeline = 100

func (w *moveWriter) run(rng *rand.Rand, stop <-chan struct{}) error {
	left := make([]int, movePipeline)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		left = left[:movePipeline]
		for i := range left {
			left[i] = rng.IntN(len(w.mids))
		}
		began := time.Now()
		for todo := left; len(todo) > 0; {
			var err error
			if todo, err = w.send(todo); err != nil {
				return err
			}
		}
		w.worst.Store(max(w.worst.Load(), int64(time.Since(began))))
	}
}

// send sends increments of posts once, and returns the posts whose increments were refused.
func (w *moveWriter) send(posts []int) (refused []int, err error) {
	var out [2][]byte
	to := make([]int, len(posts))
	for i, post := range posts {
		to[i] = w.owner[groupOf(w.mids[post])]
		out[to[i]] = resptest.Append(out[to[i]], "INCR", nKey(w.mids[post]))
	}
	for i, b := range out {
		if len(b) > 0 {
			_ = w.links[i].Nc.SetDeadline(time.Now().Add(harness.IoTimeout))
			if _, err := w.links[i].Nc.Write(b); err != nil {
				return nil, err
			}
		}
	}
	for i, post := range posts {
		line, err := w.links[to[i]].Br.ReadString('\n')
		switch {
		case err != nil:
			return nil, err
		case line[0] == ':':
			w.counts[post]++
			w.acked.Add(1)
			continue
		case strings.HasPrefix(line, "-MOVED"):
			w.owner[groupOf(w.mids[post])] = 1 - to[i]
		case harness.RefusedByDisk(line):
			time.Sleep(time.Millisecond)
		case !strings.HasPrefix(line, "-TRYAGAIN") && !strings.HasPrefix(line, "-CLUSTERDOWN"):
			return nil, fmt.Errorf("INCR answered %q", line)
		}
		refused = append(refused, post)
	}
	return refused, nil
}

// TestMoveUnderLoad moves all posts of a shard while clients increment them as fast as they can: every acknowledged increment is there
// once. It prints the rate before and during the move, and the longest time that a pipeline of 100 took.
func TestMoveUnderLoad(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, timeout: 6 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	from, to := m.Shards[0], m.Shards[1]
	next := c.mids(m, from, 1)
	const writers = 8
	var list []*moveWriter
	for range writers {
		w := &moveWriter{}
		for i, p := range []*process{c.primary(m, from), c.primary(m, to)} {
			w.links[i] = harness.DialAddr(t, "tcp", p.Addr)
			w.links[i].Br = bufio.NewReaderSize(w.links[i].Nc, 64<<10)
		}
		for range *movePostsFlag / writers {
			w.mids = append(w.mids, next())
		}
		w.counts = make([]int64, len(w.mids))
		for at := 0; at < len(w.mids); at += movePipeline { // so that there is a post to move for each mid
			var posts []int
			for i := at; i < min(at+movePipeline, len(w.mids)); i++ {
				posts = append(posts, i)
			}
			if refused, err := w.send(posts); err != nil || len(refused) > 0 {
				t.Fatalf("%d increments were refused: %v", len(refused), err)
			}
		}
		list = append(list, w)
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	for _, w := range list {
		seed := rng.Uint64()
		work.Go(func() {
			if err := w.run(rand.New(rand.NewPCG(seed, 9)), stop); err != nil {
				t.Error(err)
			}
		})
	}
	acked := func() (n int64) {
		for _, w := range list {
			n += w.acked.Load()
		}
		return n
	}
	began, before := time.Now(), acked()
	time.Sleep(2 * time.Second)
	alone := float64(acked()-before) / time.Since(began).Seconds()
	began, before = time.Now(), acked()
	harness.WantCtl(t, 0, []string{"cluster", "move", "--etcd", c.endpoints(), "--name", c.name, "--groups", from.Groups.String(), "--to", fmt.Sprint(to.ID), "--yes", "--wait", "5m"}, "moved")
	took := time.Since(began)
	beside := float64(acked()-before) / took.Seconds()
	close(stop)
	work.Wait()
	worst, sum := int64(0), int64(0)
	for _, w := range list {
		worst = max(worst, w.worst.Load())
		for _, n := range w.counts {
			sum += n
		}
	}
	if got := harness.Ask(c.primary(m, to).Addr, "COUNTER.SUM", "weibo", "repost"); got != fmt.Sprintf(":%d\r\n", sum) {
		t.Errorf("the sum is %q, and %d increments were acknowledged", got, sum)
	}
	t.Logf("%d posts moved in %v; %.0f increments a second before and %.0f during the move; the slowest pipeline took %v", *movePostsFlag, took, alone, beside, time.Duration(worst))
}
