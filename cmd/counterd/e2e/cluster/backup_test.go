package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestClusterBackup copies a cluster of two shards while it is written to, and puts the copy into one of three. Each post
// has a value that it had between the moments before and behind the backup; a damaged copy is refused.
func TestClusterBackup(t *testing.T) {
	t.Parallel()
	o := clusterOptions{members: 1, shards: 2, timeout: 2 * time.Second, fsync: "everysec"}
	from, ok := newCluster(t, o)
	if !ok {
		return
	}
	const still, busy, base = 2000, 50, uint64(7) << 50
	c := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", from.nodes[0].forward))
	for i := range still {
		c.Want("+OK\r\n", "SET", fmt.Sprintf("%d.n", base+uint64(i)), strconv.Itoa(i%60))
	}
	c.Want(":0\r\n", "HSET", fmt.Sprintf("weibo:{%d}", base), "repost", "0") // is there, and all of it is 0

	var sent, acked [busy]atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	load := harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", from.nodes[1].forward))
	go func() {
		defer close(stopped)
		for n := 0; n < 60*busy; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			i := n % busy
			sent[i].Add(1)
			if got := load.Do("INCR", fmt.Sprintf("%d.n", base+still+uint64(i))).Raw; got != fmt.Sprintf(":%d\r\n", acked[i].Load()+1) {
				t.Errorf("INCR: got %q, want %d", got, acked[i].Load()+1)
				return
			}
			acked[i].Add(1)
		}
	}()
	harness.Eventually(t, time.Minute, "each post has changes", func() bool { return acked[busy-1].Load() > 1 })

	var before, behind [busy]int64
	for i := range busy {
		before[i] = acked[i].Load()
	}
	place := filepath.Join(t.TempDir(), "backups")
	said := harness.WantCtl(t, 0, []string{"cluster", "backup", "--etcd", from.endpoints(), "--name", from.name, place}, "each shard as of its offset")
	for i := range busy {
		behind[i] = sent[i].Load()
	}
	close(stop)
	<-stopped
	lines := strings.Fields(said)
	dir := lines[len(lines)-1]
	if found, err := os.ReadDir(place); err != nil || len(found) != 1 || filepath.Join(place, found[0].Name()) != dir {
		t.Fatalf("got %v, %v in the place, want %s alone", found, err, dir)
	}

	o.shards = 3
	to, ok := newCluster(t, o)
	if !ok {
		return
	}
	c = harness.DialAddr(t, "tcp", to.nodes[0].Addr)
	c.Want("+OK\r\n", "DROP", "COUNTER", "weibo") // ids of counters are others than in the first one from now on
	restore := []string{"cluster", "restore", "--etcd", to.endpoints(), "--name", to.name, "--yes", dir}
	for _, name := range []string{"shard-2.archive", "manifest.json"} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{good[:len(good)-3], append(append([]byte{}, good[:len(good)/2]...), append([]byte{good[len(good)/2] ^ 4}, good[len(good)/2+1:]...)...)} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			harness.WantCtl(t, 1, restore, name)
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Want("*0\r\n", "SCHEMA") // nothing was changed
	harness.WantCtl(t, 0, restore, "the cluster "+to.name+" has what the backup has", strconv.Itoa(still+busy)+" posts")

	sum := int64(0)
	c = harness.DialAddr(t, "tcp", fmt.Sprintf("127.0.0.1:%d", to.nodes[2].forward))
	for i := range still {
		want := strconv.Itoa(i % 60)
		sum += int64(i % 60)
		c.Want(fmt.Sprintf("$%d\r\n%s\r\n", len(want), want), "GET", fmt.Sprintf("%d.n", base+uint64(i)))
	}
	for i := range busy {
		_, text, _ := strings.Cut(c.Do("GET", fmt.Sprintf("%d.n", base+still+uint64(i))).Raw, "\r\n")
		got, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || got < before[i] || got > behind[i] {
			t.Errorf("post %d: got %q, want %d to %d", i, text, before[i], behind[i])
		}
		sum += got
	}
	if got := harness.Ask(to.nodes[1].Addr, "COUNTER.SUM", "weibo", "repost"); !strings.Contains(got, strconv.FormatInt(sum, 10)) {
		t.Errorf("the sum is %q, want %d", got, sum)
	}
	for _, n := range to.nodes { // each has some of them
		if got := harness.Ask(n.Addr, "INFO", "keyspace"); strings.Contains(got, "keys=0,") {
			t.Errorf("a shard has no posts: %q", got)
		}
	}
	harness.WantCtl(t, 1, restore, "want an empty one")
	harness.WantCtl(t, 0, append(restore, "--overwrite"), "the cluster "+to.name+" has what the backup has")
}
