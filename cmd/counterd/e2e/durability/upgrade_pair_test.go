package durability

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

var olderFlag = flag.String("older", "", "another counterd, of an older version, for TestUpgradePair: make upgrade")

// upgradePair is a primary and its replica, each of either version, and the values that their posts must hold.
type upgradePair struct {
	t        *testing.T
	programs map[bool]string // by: is it the older one
	nodes    [2]*harness.Server
	primary  int
	posts    map[string]int64 // by key
	stage    int              // counts from 1; each has a producer
	answer   string           // to the numbered change of the stage
}

var upgradeArgs = []string{"--schema", "../../weibo.schema", "--aof-retain", "32mb", "--auto-aof-rewrite-min-size", "0", "--idmp-max-producers", "5", "--idmp-min-idle", "1"}

// start starts a node with one of the programs. A replica is waited for.
func (u *upgradePair) start(node int, older bool) {
	u.t.Helper()
	port, dir := freeport.Take(u.t), u.t.TempDir()
	if was := u.nodes[node]; was != nil {
		if was.Alive() {
			was.Stop()
		}
		port, dir = was.Port, was.Dir
	}
	args := upgradeArgs
	if node != u.primary {
		args = append([]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", u.nodes[u.primary].Port)}, args...)
	}
	u.nodes[node] = harness.LaunchAt(u.t, "counterd", u.programs[older], port, dir, args)
	if node != u.primary {
		u.alike()
	}
}

// empty takes a node's directory away, so that it must be sent a full copy.
func (u *upgradePair) empty(node int) {
	u.t.Helper()
	u.nodes[node].Kill()
	if err := os.RemoveAll(u.nodes[node].Dir); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Mkdir(u.nodes[node].Dir, 0o750); err != nil {
		u.t.Fatal(err)
	}
}

func (u *upgradePair) do(args ...string) string {
	u.t.Helper()
	return harness.Ask(u.nodes[u.primary].Addr, args...)
}

func (u *upgradePair) want(want string, args ...string) {
	u.t.Helper()
	if got := u.do(args...); got != want {
		u.t.Errorf("%q: %q, want %q", args, got, want)
	}
}

// alike waits until both nodes hold the same, and compares the posts with those of the test.
func (u *upgradePair) alike() {
	u.t.Helper()
	replica := u.nodes[1-u.primary]
	harness.Eventually(u.t, time.Minute, "the replica has all that the primary has", func() bool {
		return harness.ReplicationField(replica, "master_link_status") == "up" && u.do("COUNTER.DIGEST") == harness.Ask(replica.Addr, "COUNTER.DIGEST")
	})
	for key, value := range u.posts {
		want := harness.BulkOf(fmt.Sprint(value))
		for i, n := range u.nodes {
			if got := harness.Ask(n.Addr, "GET", key); got != want {
				u.t.Errorf("node %d: %s is %q, want %q", i, key, got, want)
			}
		}
	}
}

// change makes changes of each kind, and repeats the numbered one of the stage before, which another version may have made.
func (u *upgradePair) change(stage string) {
	u.t.Helper()
	u.t.Log(stage)
	const key = "77.cntan"
	if u.stage > 0 {
		u.want(u.answer, "INCR", key, "IDMP", fmt.Sprint("stage", u.stage), "1")
	}
	u.stage++
	u.posts[key]++
	u.answer = fmt.Sprintf(":%d\r\n", u.posts[key])
	first := ""
	harness.Eventually(u.t, time.Minute, "a producer has been idle for long enough to give its place up", func() bool {
		first = u.do("INCR", key, "IDMP", fmt.Sprint("stage", u.stage), "1")
		return !strings.HasPrefix(first, "-IDMPFULL")
	})
	if first != u.answer {
		u.t.Errorf("a numbered change: %q, want %q", first, u.answer)
	}
	for range 2 {
		u.want(u.answer, "INCR", key, "IDMP", fmt.Sprint("stage", u.stage), "1")
	}
	for i := range 200 {
		key := fmt.Sprintf("%d.cntrn", harness.ColdPosts{}.Mid(u.stage*50+i))
		u.posts[key]++
		u.want(fmt.Sprintf(":%d\r\n", u.posts[key]), "INCR", key)
	}
	c := u.nodes[u.primary].Dial(u.t)
	c.Save()
	c.Close()
	u.do("COUNTER.DEMOTE", "weibo", fmt.Sprint(harness.ColdPosts{}.Mid(10)))
	if got := u.do("COUNTER.UPDATE", "weibo", "WHERE", "attitude", ">", "0", "SET", "comment", fmt.Sprint(u.stage)); !strings.HasPrefix(got, ":1\r") {
		u.t.Errorf("COUNTER.UPDATE: %q, want one post", got)
	}
	u.posts["77.cntcm"] = int64(u.stage)
	u.want("+OK\r\n", "ADD", "COLUMN", "weibo", fmt.Sprint("c", u.stage), "hint=8", "max=32", "default=0")
	if u.stage > 1 {
		u.want("+OK\r\n", "DROP", "COLUMN", "weibo", fmt.Sprint("c", u.stage-1))
	}
	u.alike()
}

// planned hands the role over by FAILOVER.
func (u *upgradePair) planned() {
	u.t.Helper()
	u.want("+OK\r\n", "FAILOVER", "TIMEOUT", "30000")
	u.primary = 1 - u.primary
	harness.Eventually(u.t, time.Minute, "the other node is the primary", func() bool {
		return harness.ReplicationField(u.nodes[u.primary], "role") == "master"
	})
	u.alike()
}

// unplanned kills the primary while the replica lags, promotes the replica, and starts the old primary as its replica, whose log is cut.
func (u *upgradePair) unplanned(promoted, other bool) {
	u.t.Helper()
	u.nodes[1-u.primary].Kill()
	for range 50 { // which only the primary has
		u.do("INCR", "88.cntrn")
	}
	u.nodes[u.primary].Kill()
	u.primary = 1 - u.primary
	u.start(u.primary, promoted)
	u.want("+OK\r\n", "REPLICAOF", "NO", "ONE")
	harness.Eventually(u.t, time.Minute, "the promoted replica takes changes", func() bool { return strings.HasPrefix(u.do("INCR", "88.cntrn"), ":") })
	length, n := 0, int64(0)
	if _, err := fmt.Sscanf(u.do("GET", "88.cntrn"), "$%d\r\n%d", &length, &n); err != nil {
		u.t.Fatalf("GET: %v", err)
	}
	u.posts["88.cntrn"] = n
	u.start(1-u.primary, other)
	if cuts := harness.ReplicationField(u.nodes[1-u.primary], "counterd_diverged_cuts"); cuts == "0" {
		u.t.Error("the old primary cut nothing")
	}
}

// imported adds a file of posts by this version's tool.
func (u *upgradePair) imported() {
	u.t.Helper()
	dir := u.t.TempDir()
	file := filepath.Join(dir, "posts.tsv")
	if err := os.WriteFile(file, []byte("mid\trepost\n99\t5\n98\t4\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
	harness.WantCtl(u.t, 0, []string{"import", file, "--to", u.nodes[u.primary].Addr, "--counter", "weibo", "--add", "--resume", filepath.Join(dir, "state")}, "verified: ")
	u.posts["99.cntrn"] += 5
	u.posts["98.cntrn"] += 4
}

// backedUp backs the primary's directory up by this version's tool, and restores it into this version.
func (u *upgradePair) backedUp() {
	u.t.Helper()
	dir := u.t.TempDir()
	harness.WantCtl(u.t, 0, []string{"backup", u.nodes[u.primary].Dir, filepath.Join(dir, "place")})
	harness.WantCtl(u.t, 0, []string{"restore", filepath.Join(dir, "place"), "--out", filepath.Join(dir, "out")})
	s := harness.StartIn(u.t, filepath.Join(dir, "out"))
	if got, want := harness.Ask(s.Addr, "COUNTER.DIGEST"), u.do("COUNTER.DIGEST"); got != want {
		u.t.Errorf("a restored backup has the digest %q, want %q", got, want)
	}
	s.Stop()
}

// fullDisk fills the primary's disk for a while.
func (u *upgradePair) fullDisk() {
	u.t.Helper()
	in, ok := u.nodes[u.primary].Inject("pwrite64,fallocate,fdatasync", "error=ENOSPC")
	if !ok {
		return
	}
	harness.Eventually(u.t, time.Minute, "changes are refused", func() bool {
		got := u.do("INCR", "87.cntrn")
		return strings.HasPrefix(got, "-MISCONF") || strings.HasPrefix(got, "-UNCERTAIN")
	})
	in.End()
	harness.Eventually(u.t, time.Minute, "changes are made again", func() bool { return strings.HasPrefix(u.do("INCR", "87.cntrn"), ":") })
}

// flushed empties the pair, and fills it again.
func (u *upgradePair) flushed() {
	u.t.Helper()
	u.want("+OK\r\n", "FLUSHALL")
	clear(u.posts)
	u.fill()
}

// fill makes ranges that can be moved to files, and log that can be compressed.
func (u *upgradePair) fill() {
	u.t.Helper()
	c := u.nodes[u.primary].Dial(u.t)
	defer c.Close()
	if err := harness.Bulk(c, 400_000, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "INCR", "", harness.ColdPosts{}.Mid(i%75_000), ".cntcm", -1)
	}, func(int, []byte) error { return nil }); err != nil {
		u.t.Fatal(err)
	}
}

// packed waits until the primary has compressed some of its log, and sees that it has cold files.
func (u *upgradePair) packed() {
	u.t.Helper()
	c := u.nodes[u.primary].Dial(u.t)
	defer c.Close()
	harness.Eventually(u.t, time.Minute, "the log is compressed", func() bool {
		return harness.InfoNumber(u.t, c, "persistence", "log_compressed_bytes") > 0
	})
	if harness.InfoNumber(u.t, c, "tiers", "demotions") == 0 {
		u.t.Error("no range moved to a file")
	}
}

// TestUpgradePair upgrades a primary and its replica, one after the other, by another program, and goes back. In each stage posts are
// changed, a repeat of a numbered change crosses the versions, and both nodes must hold the same: behind full copies both ways, planned
// and unplanned failovers, a log that is cut, schema changes, UPDATE, FLUSHALL, an import, a full disk, an older copy of a directory, and
// backups of either version that the newer one restores.
func TestUpgradePair(t *testing.T) {
	t.Parallel()
	if *olderFlag == "" {
		harness.LeftOut(t, "no older program is named (make upgrade OLDER=commit)")
		return
	}
	u := &upgradePair{t: t, programs: map[bool]string{true: *olderFlag, false: harness.CounterdPath}, posts: map[string]int64{}}
	const older, newer = true, false
	u.start(0, older)
	u.fill()
	u.start(1, older)
	u.change("both are older")
	u.packed()
	u.backedUp()
	u.imported()
	u.nodes[1].Stop()
	copied := harness.CopyTree(t, u.nodes[1].Dir)
	u.start(1, newer)
	u.change("the replica is newer")
	u.fullDisk()
	u.empty(1)
	u.start(1, newer)
	u.change("it has a full copy of the older one")
	u.nodes[1].Stop()
	u.nodes[1].Dir = copied
	u.start(1, newer)
	u.change("it has an older copy of its directory")
	u.planned()
	u.change("the newer one is the primary")
	u.imported()
	u.fullDisk()
	u.empty(0)
	u.start(0, older)
	u.change("the older one has a full copy of the newer one")
	u.backedUp()
	u.unplanned(older, newer)
	u.change("the older one was promoted, and the log of the newer one is cut")
	u.flushed()
	u.change("both were emptied")
	u.packed()
	u.unplanned(newer, older)
	u.change("the newer one was promoted, and the log of the older one is cut")
	u.start(0, newer)
	u.change("both are newer")
	u.backedUp()
	u.planned()
	u.start(1, older)
	u.change("one is older again")
}
