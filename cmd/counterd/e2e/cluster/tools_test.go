package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// toolsBeside runs backups beside everything that happens to a cluster, and counts how many of them met which fault.
type toolsBeside struct {
	c       *cluster
	fault   atomic.Pointer[string] // that lasts
	dirs    sync.Mutex             // a node cannot start while a backup reads its directory
	mu      sync.Mutex
	met     map[string]int // "backup beside kill -9" and the like
	writers []*forwardWriter
}

func (b *toolsBeside) note(what string, began *string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.met[what]++
	if now := b.fault.Load(); began != nil && now == began {
		b.met[what+" beside "+*began]++
	}
}

// tool runs counterctl.
func (b *toolsBeside) tool(ctx context.Context, args ...string) (string, error) {
	path, err := programs.Path("counterctl")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if strings.Contains(string(out), "goroutine ") {
		b.c.t.Errorf("counterctl %v: a panic instead of a message:\n%s", args, out)
	}
	return string(out), err
}

// backUp makes backups of the cluster and of the nodes' directories in turns, until stop is closed.
func (b *toolsBeside) backUp(stop <-chan struct{}, root string) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		began := b.fault.Load()
		if n%3 == 0 {
			_, err := b.tool(context.Background(), "cluster", "backup", "--etcd", b.c.endpoints(), "--name", b.c.name, filepath.Join(root, "cluster"))
			if err != nil { // a shard without a primary cannot be backed up
				b.note("cluster backup refused", nil)
				continue
			}
			b.note("cluster backup", began)
			continue
		}
		i := n % len(b.c.nodes)
		place := filepath.Join(root, fmt.Sprint("node", i))
		b.dirs.Lock()
		out, err := b.tool(context.Background(), "backup", b.c.nodes[i].dir, place)
		b.dirs.Unlock()
		if err != nil {
			b.note("backup failed: "+strings.TrimSpace(out), nil)
			continue
		}
		b.note("backup", began)
	}
}

// during strikes a fault, waits until the tools have met it, and heals it.
func (b *toolsBeside) during(name string, strike func() (heal func())) {
	b.fault.Store(&name)
	heal := strike()
	met := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.met["backup beside "+name]+b.met["cluster backup beside "+name] > 0
	}
	harness.Eventually(b.c.t, 2*time.Minute, "backups beside "+name, met)
	b.dirs.Lock()
	heal()
	b.dirs.Unlock()
	if reason := b.c.becomes(3 * time.Minute); reason != "" {
		b.c.t.Fatalf("behind %s the cluster is not whole: %s", name, reason)
	}
	none := "nothing"
	b.fault.Store(&none)
}

// TestClusterTools backs a cluster and the directories of its nodes up again and again while groups move, roles are handed over, and
// primaries and replicas are killed. In the end all sums are exact, and each backup can be read.
func TestClusterTools(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 3 * time.Second, fsync: "everysec", args: []string{"--aof-compress", "yes", "--repl-compare-cpu", "100000"}})
	if !ok {
		return
	}
	const filled = 5_000
	c.fill(filled)
	b := &toolsBeside{c: c, met: map[string]int{}}
	sum := int64(0)
	stop, moved := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	var moves atomic.Int64
	writers := c.startForwardWriters(&work, 2, rng, stop, 5*time.Millisecond)
	b.writers = writers
	moving := rand.New(rand.NewPCG(rng.Uint64(), 3))
	work.Go(func() {
		if err := c.moveAlways(moving, moved, &moves); err != nil {
			t.Error(err)
		}
	})
	root := t.TempDir()
	work.Go(func() { b.backUp(stop, root) })
	defer func() {
		t.Log(b.met, moves.Load(), "moves")
	}()

	first, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"CLUSTER FAILOVER", "kill -9 of a primary", "kill -9 of a replica"} {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		shard := one(rng, m.Shards)
		b.during(kind, func() func() {
			for _, f := range clusterFaults {
				if f.name == kind {
					return f.strike(c, rng, m, shard)
				}
			}
			t.Fatalf("there is no fault %s", kind)
			return nil
		})
	}
	close(moved)
	close(stop)
	work.Wait()
	if reason := c.becomes(time.Minute); reason != "" {
		t.Fatal(reason)
	}
	last, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "nodes have compared posts", func() bool {
		for _, n := range c.nodes {
			if _, posts, _ := strings.Cut(harness.Ask(n.Addr, "INFO", "replication"), "counterd_compare_posts:"); posts != "" && posts[0] != '0' {
				return true
			}
		}
		return false
	})
	resumed := false
	for _, n := range c.nodes {
		resumed = resumed || strings.Contains(n.Log.String(), "resumed replication from the primary's log")
	}
	if !resumed {
		t.Error("no node resumed")
	}
	epochs := uint64(0)
	for _, s := range first.Shards {
		epochs += last.Shard(s.ID).Epoch - s.Epoch
	}
	if epochs < 2 || moves.Load() == 0 {
		t.Errorf("%d epochs began and %d moves ended, want both", epochs, moves.Load())
	}
	for _, w := range writers {
		if err := w.check(); err != nil {
			t.Error(err)
		}
		for _, v := range w.values {
			sum += v
		}
	}
	for i := range filled {
		sum += int64(i % 7)
	}
	if got := harness.Ask(c.nodes[0].Addr, "COUNTER.SUM", "weibo", "repost"); !strings.Contains(got, fmt.Sprint(sum)) {
		t.Errorf("the sum is %q, want %d", got, sum)
	}
	if err := c.alike(time.Minute); err != nil {
		t.Error(err)
	}
	b.check(t, root)
}

// check reads the newest backups: each has posts.
func (b *toolsBeside) check(t *testing.T, root string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(root, "cluster", "*", "*.archive"))
	if err != nil {
		t.Fatal(err)
	}
	sources = sources[max(0, len(sources)-4):]
	for i := range b.c.nodes {
		place := filepath.Join(root, fmt.Sprint("node", i))
		if _, err := os.Stat(place); err != nil {
			continue
		}
		dir := filepath.Join(root, fmt.Sprint("restored", i))
		harness.WantCtl(t, 0, []string{"restore", place, "--out", dir})
		harness.WantCtl(t, 0, []string{"check", dir})
		sources = append(sources, dir)
	}
	values := map[string]int64{} // of each post of a writer: the most that it ever was
	for _, w := range b.writers {
		for i, v := range w.values {
			values[strconv.FormatUint(w.post(i), 10)] = v
		}
	}
	posts := 0
	for _, source := range sources {
		out := harness.WantCtl(t, 0, []string{"export", source, "weibo", "--out", "-", "--format", "tsv"})
		for line := range strings.Lines(out) {
			mid, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
			n, err := strconv.ParseUint(mid, 10, 64)
			if err != nil {
				continue
			}
			posts++
			got, err := strconv.ParseInt(value, 10, 64)
			if most, ok := values[mid]; ok && got > most || err != nil {
				t.Errorf("%s: post %s is %s, want at most %d", source, mid, value, most)
			}
			if i := (n - 6<<56) / 4000; n>>56 == 6 && got != int64(i%7) {
				t.Errorf("%s: post %s is %s, want %d", source, mid, value, i%7)
			}
		}
	}
	t.Logf("%d posts in %d backups", posts, len(sources))
	if len(sources) < 3 || posts == 0 {
		t.Errorf("%d posts in %d backups: want some", posts, len(sources))
	}
}
