// Scenario: a backup of a cluster with columns that count in windows, and that decay, is restored.

package cluster

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// TestClusterRestoreDerived restores a cluster of two shards into one of three whose clocks are six hours ahead. The restore is killed in the middle and given again.
// A window that still has the additions has each once, a window that ended meanwhile is empty, and a column that decays is worth a little less.
func TestClusterRestoreDerived(t *testing.T) {
	t.Parallel()
	o := clusterOptions{members: 1, shards: 2, timeout: 3 * time.Second, fsync: "everysec"}
	from, ok := newCluster(t, o)
	if !ok {
		return
	}
	const posts, base = 2000, uint64(7) << 50
	c := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", from.nodes[0].forward))
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=360d/6d", "of=repost", "top=100")
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "hours", "window=3h/1h", "of=repost")
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "heat", "decay=366d", "of=repost*1000")
	sum := 0
	for i := range posts {
		n := 1 + i%60
		sum += n
		c.Want(fmt.Sprintf(":%d\r\n", n), "INCRBY", fmt.Sprintf("%d.n", base+uint64(i)), strconv.Itoa(n))
	}
	said := harness.WantCtl(t, 0, []string{"cluster", "backup", "--etcd", from.endpoints(), "--name", from.name, t.TempDir()}, "each shard as of its offset")
	lines := strings.Fields(said)
	dir := lines[len(lines)-1]

	o.shards, o.replicas = 3, 1
	to, ok := newCluster(t, o)
	if !ok {
		return
	}
	ahead := true
	for _, n := range to.nodes {
		ahead = ahead && n.SetClock(6*time.Hour)
	}
	c = harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", to.nodes[0].forward))
	c.Want("+OK\r\n", "DROP", "COUNTER", "weibo") // ids are others than in the backup from now on
	restore := []string{"cluster", "restore", "--etcd", to.endpoints(), "--name", to.name, "--yes", dir}
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command(path, append(restore, "--rate", "500")...)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "a shard of the backup is restored", func() bool {
		got := harness.Ask(to.nodes[0].Addr, "COUNTER.SUM", "weibo", "recent")
		return !strings.HasPrefix(got, "-") && strings.TrimSpace(got) != ":0"
	})
	_ = first.Process.Kill() // the posts of the other shard take 2 seconds
	_ = first.Wait()
	harness.WantCtl(t, 0, append(restore, "--overwrite"), "the cluster "+to.name+" has what the backup has", fmt.Sprintf("weibo.recent: %d posts with additions\n", posts))

	want := map[string]int64{"recent": int64(sum), "repost": int64(sum)}
	if ahead {
		want["hours"] = 0
	}
	for column, n := range want {
		harness.Eventually(t, time.Minute, "the sum of "+column, func() bool { return c.Do("COUNTER.SUM", "weibo", column).N == n })
	}
	for i := range posts {
		row := c.Do("COUNTER.MGET", "weibo", strconv.FormatUint(base+uint64(i), 10), "COLUMNS", "repost", "recent", "heat")
		if len(row.List) != 1 || len(row.List[0].List) != 3 {
			t.Fatalf("COUNTER.MGET answered %s", row.Raw)
		}
		n := int64(1 + i%60)
		repost, recent, heat := row.List[0].List[0].N, row.List[0].List[1].N, row.List[0].List[2].N
		if repost != n || recent != n || heat > 1000*n || heat < 995*n {
			t.Fatalf("post %d has %d, %d in the window and the heat %d, want %d, %d, and about %d", i, repost, recent, heat, n, n, 1000*n)
		}
	}
	top := c.Do("COUNTER.TOP", "weibo", "recent", "1")
	if len(top.List) != 1 || top.List[0].List[0].N != int64(base)+1979 || top.List[0].List[1].N != 60 {
		t.Errorf("the first post of the window is %s, want the newest with 60", top.Raw)
	}
	if err := to.alike(time.Minute); err != nil {
		t.Error(err)
	}
}

// restoring is a restore of posts that count in four windows, and in four columns that decay, into a cluster.
type restoring struct {
	to  *cluster
	sum int64 // of each window
	cmd *exec.Cmd
	out strings.Builder
}

// startRestore makes a backup of a cluster of one shard, and restores it into another. ok is false without etcd.
func startRestore(t *testing.T, o clusterOptions) (r *restoring, ok bool) {
	t.Helper()
	into := o
	o.shards, o.replicas = 1, 0
	from, ok := newCluster(t, o)
	if !ok {
		return nil, false
	}
	const posts, base = 3000, uint64(7) << 50
	r = &restoring{}
	c := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", from.nodes[0].forward))
	for i := range 8 { // each post counts in all of them
		if i < 4 {
			c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", fmt.Sprintf("w%d", i), "window=360d/6d", "of=repost")
		} else {
			c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", fmt.Sprintf("w%d", i), "decay=366d", "of=repost*1000")
		}
	}
	for i := range posts {
		n := 1 + i%60
		r.sum += int64(n)
		c.Want(fmt.Sprintf(":%d\r\n", n), "INCRBY", fmt.Sprintf("%d.n", base+uint64(i)), strconv.Itoa(n))
	}
	said := harness.WantCtl(t, 0, []string{"cluster", "backup", "--etcd", from.endpoints(), "--name", from.name, t.TempDir()}, "each shard as of its offset")
	lines := strings.Fields(said)
	if r.to, ok = newCluster(t, into); !ok {
		return nil, false
	}
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	c = harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", r.to.nodes[0].forward))
	c.Want("+OK\r\n", "DROP", "COUNTER", "weibo")
	c.Close()
	r.cmd = exec.Command(path, "cluster", "restore", "--etcd", r.to.endpoints(), "--name", r.to.name, "--yes", lines[len(lines)-1])
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r, true
}

// begun waits until a window is being restored at a node.
func (r *restoring) begun(t *testing.T, addr string, window int) {
	t.Helper()
	harness.Eventually(t, time.Minute, "a derived column is being restored", func() bool {
		got := harness.Ask(addr, "COUNTER.SUM", "weibo", fmt.Sprintf("w%d", window))
		return !strings.HasPrefix(got, "-") && strings.TrimSpace(got) != ":0"
	})
}

// ended waits until the restore has ended, well.
func (r *restoring) ended(t *testing.T) {
	t.Helper()
	err := r.cmd.Wait()
	t.Logf("the restore said\n%s", &r.out)
	if err != nil {
		t.Fatal(err)
	}
}

// whole compares the columns with those of the backup.
func (r *restoring) whole(t *testing.T) {
	t.Helper()
	c := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", r.to.nodes[0].forward))
	for i := range 4 {
		if got := c.Do("COUNTER.SUM", "weibo", fmt.Sprintf("w%d", i)).N; got != r.sum {
			t.Errorf("the window w%d has %d additions, want %d", i, got, r.sum)
		}
		if got := c.Do("COUNTER.SUM", "weibo", fmt.Sprintf("w%d", 4+i)).N; got > 1000*r.sum || got < 995*r.sum {
			t.Errorf("the heat w%d is %d, want about %d", 4+i, got, 1000*r.sum)
		}
	}
	if err := r.to.alike(time.Minute); err != nil {
		t.Error(err)
	}
}

// TestClusterRestoreFailover kills the primaries of all shards while a restore gives them the counts of derived columns. It goes on at the next primaries: these have
// each count that was acknowledged before, and a piece that was given twice counts once.
func TestClusterRestoreFailover(t *testing.T) {
	t.Parallel()
	r, ok := startRestore(t, clusterOptions{members: 1, shards: 2, replicas: 2, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	m, err := r.to.load()
	if err != nil {
		t.Fatal(err)
	}
	var killed []*process
	for i, s := range m.Shards { // the restore gives column after column, and shard after shard in each
		p := r.to.primary(m, s)
		r.begun(t, p.Addr, 2*i)
		p.Kill()
		killed = append(killed, p)
	}
	r.ended(t)
	for _, p := range killed {
		r.to.start(p)
	}
	r.to.healthy(time.Minute)
	r.whole(t)
}

// TestClusterRestoreMove moves groups of hash slots from one shard to the other while a restore gives them the counts of derived columns. The restore gives each count to
// the shard that owns the group then.
func TestClusterRestoreMove(t *testing.T) {
	t.Parallel()
	r, ok := startRestore(t, clusterOptions{members: 1, shards: 2, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	m, err := r.to.load()
	if err != nil {
		t.Fatal(err)
	}
	r.begun(t, r.to.primary(m, m.Shards[0]).Addr, 0)
	groups := m.Shards[0].Groups.String()
	harness.WantCtl(t, 0, []string{"cluster", "move", "--etcd", r.to.endpoints(), "--name", r.to.name, "--yes", "--to", fmt.Sprint(m.Shards[1].ID), "--groups", groups}, "groups moved")
	r.ended(t)
	r.whole(t)
}

// TestClusterRestoreBehind restores a backup into a cluster whose clocks have just gone three days ahead of the time of its logs. Its windows have the restored
// additions at once, and a shard takes them in before its own old additions go.
func TestClusterRestoreBehind(t *testing.T) {
	t.Parallel()
	const ahead, posts, base = 3 * 24 * time.Hour, 500, uint64(7) << 50
	o := clusterOptions{members: 1, shards: 2, timeout: 15 * time.Second, fsync: "everysec"}
	from, ok := newCluster(t, o)
	if !ok {
		return
	}
	to, ok := newCluster(t, o)
	if !ok {
		return
	}
	set := func(c *cluster) (ok bool) {
		for _, n := range c.nodes {
			if !n.SetClock(ahead) {
				return false
			}
		}
		return true
	}
	fill := func(c *cluster) *harness.Conn {
		conn := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", c.nodes[0].forward))
		conn.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=1h/5m", "of=repost")
		for i := range posts {
			n := 1 + i%7
			conn.Want(fmt.Sprintf(":%d\r\n", n), "INCRBY", fmt.Sprintf("%d.n", base+uint64(i)), strconv.Itoa(n))
		}
		return conn
	}
	if !set(from) {
		return
	}
	fill(from)
	conn := fill(to)
	set(to)
	said := harness.WantCtl(t, 0, []string{"cluster", "backup", "--etcd", from.endpoints(), "--name", from.name, t.TempDir()}, "each shard as of its offset")
	lines := strings.Fields(said)
	harness.WantCtl(t, 0, []string{"cluster", "restore", "--etcd", to.endpoints(), "--name", to.name, "--yes", "--overwrite", lines[len(lines)-1]},
		"the cluster "+to.name+" has what the backup has", fmt.Sprintf("weibo.recent: %d posts with additions\n", posts))
	for i := range posts {
		row := conn.Do("COUNTER.MGET", "weibo", strconv.FormatUint(base+uint64(i), 10), "COLUMNS", "repost", "recent")
		n := int64(1 + i%7)
		if len(row.List) != 1 || len(row.List[0].List) != 2 || row.List[0].List[0].N != n || row.List[0].List[1].N != n {
			t.Fatalf("post %d has %s, want %d additions, all in the window", i, row.Raw, n)
		}
	}
}
