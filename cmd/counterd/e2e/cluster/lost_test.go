package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// moveAlways moves groups between shards, one move after the other, until stop is closed, and returns how many it made.
func (c *cluster) moveAlways(rng *rand.Rand, stop <-chan struct{}, made *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		m, err := c.load()
		if err != nil {
			return err
		}
		from, to := one(rng, m.Shards), one(rng, m.Shards)
		if from == to || from.Groups.Len() < 40 {
			continue
		}
		if err := c.move(ctx, rng.Uint64(), from, to); err != nil {
			return err
		}
		made.Add(1)
	}
}

// TestClusterLost loses a whole cluster, with etcd, and restores it from a backup that was made while groups moved and clients
// wrote through forward ports. Then the clients repeat their last numbered increments: those that the backup has do not count
// again, and those that it lacks do. So every answer is as it was, and every sum is exact.
func TestClusterLost(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	const before, behind = 60, 5 // increments that a writer makes during the backup at most, and after it
	o := clusterOptions{members: 1, shards: 3, timeout: 2 * time.Second, fsync: "everysec"}
	from, ok := newCluster(t, o)
	if !ok {
		return
	}
	from.fill(10_000)
	stop, moved := make(chan struct{}), make(chan struct{})
	var work, moving sync.WaitGroup
	writers := from.startForwardWriters(&work, 4, rng, stop, time.Millisecond)
	var moves atomic.Int64
	moving.Go(func() {
		if err := from.moveAlways(rand.New(rand.NewPCG(rng.Uint64(), 3)), moved, &moves); err != nil {
			t.Error(err)
		}
	})
	harness.Eventually(t, 2*time.Minute, "groups have moved, and clients have written", func() bool {
		busy := t.Failed() || moves.Load() >= 2
		for _, w := range writers {
			busy = busy && w.count.Load() > 100
		}
		return busy
	})
	began := moves.Load()
	for _, w := range writers {
		w.most.Store(w.count.Load() + before)
	}
	place := filepath.Join(t.TempDir(), "backups")
	said := harness.WantCtl(t, 0, []string{"cluster", "backup", "--etcd", from.endpoints(), "--name", from.name, place}, "each shard as of its offset")
	for _, w := range writers {
		n := w.count.Load() + behind
		w.most.Store(n)
		harness.Eventually(t, time.Minute, "clients write after the backup", func() bool { return t.Failed() || w.count.Load() == n })
	}
	close(stop)
	work.Wait()
	close(moved)
	moving.Wait()
	t.Logf("%d moves ended before the backup and %d during it", began, moves.Load()-began)
	if t.Failed() {
		return
	}
	for _, p := range append(from.nodes, from.etcd...) {
		p.Kill()
	}

	o.shards = 2
	to, ok := newCluster(t, o)
	if !ok {
		return
	}
	words := strings.Fields(said)
	harness.WantCtl(t, 0, []string{"cluster", "restore", "--etcd", to.endpoints(), "--name", to.name, "--yes", words[len(words)-1]}, "the cluster "+to.name+" has what the backup has")
	restored := int64(0)
	for _, w := range writers {
		w.reach(to)
		for i, made := range w.values {
			got, err := w.read(w.post(i))
			if err != nil || got > made {
				t.Fatalf("post %d was restored as %d, %v: %d increments were made", w.post(i), got, err, made)
			}
			restored += got
		}
	}
	made := int64(0)
	for _, w := range writers {
		made += int64(len(w.made))
		for number := len(w.made) - before - behind; number < len(w.made); number++ {
			if err := w.send(number); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.check(); err != nil {
			t.Error(err)
		}
	}
	if least := made - int64(len(writers)*(before+behind)); restored < least || restored > made-int64(len(writers)*behind) {
		t.Errorf("%d increments were restored, want %d to %d", restored, least, made-int64(len(writers)*behind))
	}
	t.Logf("%d increments, %d in the backup, %d repeats", made, restored, len(writers)*(before+behind))
	// Filled posts are in one shard each: not in two, not in none.
	sum := 0
	for i := range 10_000 {
		sum += i % 7
	}
	c := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", to.nodes[0].forward))
	c.Want(fmt.Sprintf(":%d\r\n", 10_000+len(writers)*len(writers[0].values)), "COUNTER.COUNT", "weibo")
	if got := c.Do("COUNTER.SUM", "weibo", "repost").Raw; !strings.Contains(got, fmt.Sprint(int64(sum)+made)) {
		t.Errorf("the sum is %q, want %d", got, int64(sum)+made)
	}
}
