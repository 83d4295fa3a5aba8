package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// feedPosts is how many posts the writer of a fed cluster counts on. They are of both shards.
const feedPosts = 40

// fedKey is the key of a post of a fed cluster.
func fedKey(i int) string { return nKey(uint64(7_000_000 + i)) }

// feedLines are the whole lines of a file that is perhaps being written.
func feedLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1], nil
}

// fed is the value of each post behind the lines. Each increment of a post must be the one behind the last.
func fed(lines []string) (map[string]int64, error) {
	all := map[string]int64{}
	for i, line := range lines {
		var change struct {
			Position string
			Parts    []struct {
				Kind, Mid string
				Values    map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil || !strings.HasPrefix(change.Position, "c1,") {
			return nil, fmt.Errorf("line %d is %q: %v", i, line, err)
		}
		for _, p := range change.Parts {
			if p.Kind != "set" {
				continue
			}
			if got := p.Values["repost"]; got != all[p.Mid]+1 {
				return nil, fmt.Errorf("line %d: post %s has %d behind %d", i, p.Mid, got, all[p.Mid])
			}
			all[p.Mid]++
		}
	}
	return all, nil
}

// fedWriter increments posts until it is stopped. An increment whose reply was lost may have been made.
func fedWriter(t *testing.T, rng *rand.Rand, addrs []string) (made *atomic.Int64, stop func()) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DialTimeout: time.Second, ReadTimeout: time.Second, DisableIdentity: true})
	ctx, cancel := context.WithCancel(t.Context())
	made = new(atomic.Int64)
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			if rdb.Incr(ctx, fedKey(rng.IntN(feedPosts))).Err() == nil {
				made.Add(1)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	return made, sync.OnceFunc(func() {
		cancel()
		ended.Wait()
		_ = rdb.Close()
	})
}

// TestFeed writes the changes of a cluster to a file with a counterctl that is killed, while groups of hash slots move and primaries are
// killed: each change of a post is in the file once and in order, and the cursor of each shard follows.
func TestFeed(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr)
	}
	made, stop := fedWriter(t, rand.New(rand.NewPCG(rng.Uint64(), 0)), addrs)
	defer stop()
	changes, log := filepath.Join(t.TempDir(), "changes.jsonl"), new(harness.LogBuffer)
	var tool *exec.Cmd
	start := func() {
		tool = exec.Command(path, "feed", strings.Join(addrs, ","), "--from", "OLDEST", "--cursor", "search", "--to", changes)
		tool.Stdout, tool.Stderr, tool.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := tool.Start(); err != nil {
			t.Fatal(err)
		}
	}
	kill := func() {
		_ = tool.Process.Kill()
		_ = tool.Wait()
	}
	start()
	defer func() {
		kill()
		if t.Failed() {
			t.Logf("counterctl feed:\n%s", log)
		}
	}()
	more := func() { // the writer and the tool get on
		t.Helper()
		goal := made.Load() + 20
		lines, err := feedLines(changes)
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "increments and changes", func() bool {
			now, err := feedLines(changes)
			return err == nil && made.Load() > goal && len(now) > len(lines)+20
		})
	}
	for round := range harness.Scaled(2) {
		more()
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		from := m.Shards[round/2%2]
		if round%2 == 0 {
			to := m.Shards[1-round/2%2]
			var moving sync.WaitGroup
			moving.Go(func() {
				harness.WantCtl(t, 0, []string{"cluster", "move", "--etcd", c.endpoints(), "--name", c.name, "--groups", from.Groups.String(), "--to", fmt.Sprint(to.ID), "--yes", "--wait", "2m"}, "moved")
			})
			kill() // somewhere within the move
			start()
			moving.Wait()
			continue
		}
		p := c.primary(m, m.Shards[1-round/2%2]) // which has the groups
		p.Kill()
		more() // another node has taken over
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		c.healthy(time.Minute)
	}
	more()
	stop()
	want := map[string]int64{}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true})
	defer rdb.Close()
	for i := range feedPosts {
		if n, err := rdb.Get(t.Context(), fedKey(i)).Int64(); err == nil {
			want[strconv.Itoa(7_000_000+i)] = n
		} else if err != redis.Nil {
			t.Fatal(err)
		}
	}
	var got map[string]int64
	harness.Eventually(t, time.Minute, "the file to have what the cluster has", func() bool {
		lines, err := feedLines(changes)
		if err == nil {
			got, err = fed(lines)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
	if err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.Do(ctx, "COUNTER.CURSOR", "GET", "search").Err()
	}); err != nil {
		t.Errorf("a shard has no cursor: %v", err)
	}
}
