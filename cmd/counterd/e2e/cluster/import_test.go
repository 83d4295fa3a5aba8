package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// importFirst is the first post of imports. They are of all hash slots.
const importFirst = 5_000_000

// importFile writes a file of posts. The i-th has the value i%7+1.
func importFile(t *testing.T, posts int) (path string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("mid\trepost\n")
	for i := range posts {
		fmt.Fprintf(&text, "%d\t%d\n", importFirst+i, i%7+1)
	}
	path = filepath.Join(t.TempDir(), "posts.tsv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// imported checks that each post of a file has its value so many times.
func (c *cluster) imported(posts, times int) {
	c.t.Helper()
	conn := harness.DialAddr(c.t, "tcp", fmt.Sprintf("%s:%d", c.nodes[0].host, c.nodes[0].forward))
	defer conn.Close()
	args := []string{"COUNTER.MGET", "weibo"}
	for i := range posts {
		args = append(args, fmt.Sprint(importFirst+i))
	}
	v, err := conn.TryDo(args...)
	if err != nil || len(v.List) != posts {
		c.t.Fatalf("COUNTER.MGET of %d posts: %d rows, %v", posts, len(v.List), err)
	}
	wrong := 0
	for i, row := range v.List {
		want := int64((i%7 + 1) * times)
		if len(row.List) != 1 {
			wrong++
		} else if got, err := row.List[0].Int(); err != nil || got != want {
			if wrong++; wrong < 5 {
				c.t.Errorf("post %d is %d, %v: want %d", importFirst+i, got, err, want)
			}
		}
	}
	if wrong > 0 {
		c.t.Errorf("%d of %d posts are wrong behind %d imports", wrong, posts, times)
	}
}

// importKilled runs an import until it ends by itself. Up to three times before it is killed.
func importKilled(rng *rand.Rand, kills *atomic.Int64, args ...string) error {
	path, err := programs.Path("counterctl")
	if err != nil {
		return err
	}
	for killed := 0; ; killed++ {
		limit := 5 * time.Minute
		if killed < 3 {
			limit = time.Duration(200+rng.IntN(1500)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		ended := ctx.Err()
		cancel()
		switch {
		case err == nil && !strings.Contains(string(out), "verified: "):
			return fmt.Errorf("counterctl %v: %s", args, out)
		case err == nil:
			return nil
		case !errors.Is(ended, context.DeadlineExceeded) || killed == 3:
			return fmt.Errorf("counterctl %v: %w\n%s", args, err, out)
		}
		kills.Add(1)
	}
}

// TestClusterImport adds the posts of a file again and again, by a tool that is killed, through ordinary and forward ports, while groups
// move, roles are handed over and a primary is killed. Every import counts once.
func TestClusterImport(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: 3 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	const posts = 3000
	file, states := importFile(t, posts), t.TempDir()
	var work sync.WaitGroup
	var kills, moves, rounds atomic.Int64
	stop := make(chan struct{})
	moving, importing := rand.New(rand.NewPCG(rng.Uint64(), 3)), rand.New(rand.NewPCG(rng.Uint64(), 4))
	work.Go(func() {
		if err := c.moveAlways(moving, stop, &moves); err != nil {
			t.Error(err)
		}
	})
	work.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				if n > 1 { // both kinds of ports
					return
				}
			default:
			}
			p := one(importing, c.nodes)
			to := fmt.Sprintf("%s:%d", p.host, []int{p.port, p.forward}[n%2])
			if err := importKilled(importing, &kills, "import", file, "--to", to, "--counter", "weibo", "--add", "--resume", filepath.Join(states, fmt.Sprint(n)),
				"--rate", "1500", "--wait", "4m"); err != nil {
				t.Error(err)
				return
			}
			rounds.Add(1)
		}
	})
	harness.Eventually(t, 2*time.Minute, "the tool is killed", func() bool { return kills.Load() > 0 || t.Failed() })
	epochs := uint64(0)
	for _, kind := range []string{"CLUSTER FAILOVER", "kill -9 of a primary"} {
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		shard := one(rng, m.Shards)
		for _, f := range clusterFaults {
			if f.name == kind {
				heal := f.strike(c, rng, m, shard)
				harness.Eventually(t, 2*time.Minute, "another node leads", func() bool {
					now, err := c.load()
					return err == nil && now.Shard(shard.ID).Primary != "" && now.Shard(shard.ID).Primary != shard.Primary
				})
				heal()
				epochs++
			}
		}
		if reason := c.becomes(3 * time.Minute); reason != "" {
			t.Fatalf("behind %s the cluster is not whole: %s", kind, reason)
		}
	}
	close(stop)
	work.Wait()
	t.Logf("%d imports, %d kills, %d moves", rounds.Load(), kills.Load(), moves.Load())
	if epochs != 2 || moves.Load() == 0 || rounds.Load() < 2 {
		t.Errorf("%d faults, %d moves and %d imports: want some", epochs, moves.Load(), rounds.Load())
	}
	c.imported(posts, int(rounds.Load()))
}

// TestClusterImportPorts imports into a cluster of one shard and of two, from a file and from Redis, by values that are set and that are
// added, by each kind of port and by a replica. A follower is refused before anything is written.
func TestClusterImportPorts(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} { // and of two nodes
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			importPorts(t, shards)
		})
	}
}

func importPorts(t *testing.T, shards int) {
	c, ok := newCluster(t, clusterOptions{members: 1, shards: shards, replicas: 2 - shards, timeout: 3 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	const posts = 700
	file, states, times := importFile(t, posts), t.TempDir(), 1
	address := func(n *process, port int) string { return fmt.Sprintf("%s:%d", n.host, port) }
	harness.WantCtl(t, 0, []string{"import", file, "--to", c.nodes[0].Addr, "--counter", "weibo", "--verify", "values"}, "verified: all 700 values")
	for i, to := range []string{c.nodes[0].Addr, c.nodes[1].Addr, address(c.nodes[1], c.nodes[1].forward)} {
		args := []string{"import", file, "--to", to, "--counter", "weibo", "--add", "--resume", filepath.Join(states, fmt.Sprint(i))}
		harness.WantCtl(t, 0, args, "verified: ")
		times++
		harness.WantCtl(t, 1, args, "this import is complete")
		harness.WantCtl(t, 1, []string{"import", "redis://127.0.0.1:1", "--to", to, "--map", "post:{mid}=weibo.repost", "--follow", "--state", filepath.Join(states, "follow")}, to+" is a cluster")
	}
	c.imported(posts, times)
	src, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	conn := src.Dial(t)
	for i := range posts {
		conn.Do("SET", fmt.Sprintf("post:%d", importFirst+i), fmt.Sprint(i%7+1))
	}
	conn.Close()
	args := []string{"import", "redis://" + src.Addr, "--map", "post:{mid}=weibo.repost", "--to"}
	harness.WantCtl(t, 0, append(args, c.nodes[0].Addr), "verified: all 700 values")
	c.imported(posts, 1)
	harness.WantCtl(t, 0, append(args, address(c.nodes[0], c.nodes[0].forward), "--add", "--resume", filepath.Join(states, "redis")), "verified: ")
	c.imported(posts, 2)
}
