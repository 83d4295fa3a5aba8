// Scenario: an import beside failovers, full copies, backups, updates by condition and producers that give their places up.

package migration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// importBeside is a primary and its replica, into which posts are imported.
type importBeside struct {
	t     *testing.T
	args  []string
	nodes [2]*harness.Server // the import goes to the first
	dirs  sync.Mutex         // a node cannot start while a backup reads its directory
	ended atomic.Bool
	count sync.Map // events beside the import: *atomic.Int64
}

const (
	besidePosts = 9000
	besideFirst = 10_000 // the id of the first
	besideRate  = 500    // posts a second
)

func (b *importBeside) note(what string) {
	if !b.ended.Load() {
		n, _ := b.count.LoadOrStore(what, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
}

// ask sends a command to a node that may not be there.
func (b *importBeside) ask(node int, args ...string) string {
	return harness.Ask(b.nodes[node].Addr, args...)
}

// follows waits until one node is the other's replica and has a link.
func (b *importBeside) follows(replica int) {
	b.t.Helper()
	harness.Eventually(b.t, 2*time.Minute, "the replica follows", func() bool {
		return strings.Contains(b.ask(replica, "INFO", "replication"), "master_link_status:up") && strings.Contains(b.ask(1-replica, "INFO", "replication"), "role:master")
	})
}

// handOver makes a node the primary by FAILOVER.
func (b *importBeside) handOver(to int) {
	b.t.Helper()
	if got := b.ask(1-to, "FAILOVER", "TIMEOUT", "30000"); got != "+OK\r\n" {
		b.t.Errorf("FAILOVER: %q", got)
		return
	}
	b.follows(1 - to)
	b.note("FAILOVER")
}

// replica kills the second node and starts it again: with its directory, which is whole or damaged, or with an empty directory.
func (b *importBeside) replica(state string) {
	b.t.Helper()
	b.dirs.Lock()
	n := b.nodes[1]
	n.Kill()
	time.Sleep(300 * time.Millisecond) // it lags
	switch state {
	case "damaged":
		for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
			if err := os.WriteFile(filepath.Join(n.Dir, name), []byte("counterd history 1\n"), 0o640); err != nil {
				b.t.Fatal(err)
			}
		}
	case "empty":
		if err := os.RemoveAll(n.Dir); err != nil {
			b.t.Fatal(err)
		}
		if err := os.Mkdir(n.Dir, 0o750); err != nil {
			b.t.Fatal(err)
		}
	}
	b.nodes[1] = harness.StartAt(b.t, n.Port, n.Dir, append([]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", b.nodes[0].Port)}, b.args...)...)
	b.dirs.Unlock()
	b.follows(1)
	if state == "damaged" {
		harness.Eventually(b.t, time.Minute, "the replica has healed", func() bool { return strings.Contains(b.ask(1, "INFO", "replication"), "counterd_healed:1\r\n") })
	}
	b.note(state + " replica")
}

// crowd makes numbered changes of a post of its own, each as another producer, and updates by condition. It drops a post of its own with a range of ids. Its producers take no
// place before the importer has one, and none in one second of four: an importer that lost its place on a busy machine, as it came back late, finds one again.
func (b *importBeside) crowd(stop <-chan struct{}) {
	begun := false
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		begun = begun || b.ask(0, "EXISTS", fmt.Sprint("weibo:", besideFirst)) == ":1\r\n"
		if begun && i%80 >= 20 {
			switch got := b.ask(0, "HINCRBY", "weibo:1", "attitude", "1", "IDMP", fmt.Sprint("crowd", i), "1"); {
			case strings.HasPrefix(got, ":"):
				b.note("place found")
			case strings.HasPrefix(got, "-IDMPFULL"):
				b.note("no place")
			}
		}
		if i%4 == 0 && strings.HasPrefix(b.ask(0, "COUNTER.UPDATE", "weibo", "WHERE", "repost", ">", "0", "SET", "comment", "7", "LIMIT", "200"), ":") {
			b.note("update")
		}
		if i%10 == 5 && strings.HasPrefix(b.ask(0, "HINCRBY", "weibo:5", "attitude", "1"), ":") && b.ask(0, "COUNTER.DROPRANGE", "weibo", "2", "9") == ":1\r\n" {
			b.note("dropped range")
		}
		if i%20 == 0 && strings.HasPrefix(b.ask(i/20%2, "BGSAVE"), "+") {
			b.note("snapshot")
		}
	}
}

// backUp backs both directories up in turns, restores each backup and looks at the posts of the import: each was added once, or is
// not there yet.
func (b *importBeside) backUp(stop <-chan struct{}, root string) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
		place, out := filepath.Join(root, fmt.Sprint("place", n%2)), filepath.Join(root, fmt.Sprint("out", n))
		b.dirs.Lock()
		_, status := harness.Counterctl(b.t, "backup", b.nodes[n%2].Dir, place)
		b.dirs.Unlock()
		if status != 0 {
			b.note("backup refused") // the replica has an empty directory
			continue
		}
		harness.WantCtl(b.t, 0, []string{"restore", place, "--out", out})
		b.posts(out)
		_ = os.RemoveAll(out)
		b.note("restored backup")
	}
}

// posts checks the imported posts of a directory or a node, and returns how many there are.
func (b *importBeside) posts(source string) (posts int) {
	text := harness.WantCtl(b.t, 0, []string{"export", source, "weibo", "--out", "-", "--format", "tsv", "--columns", "repost"})
	for line := range strings.Lines(text) {
		mid, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.Atoi(mid)
		if err != nil || n < besideFirst {
			continue
		}
		if posts++; value != strconv.Itoa(n%50+1) {
			b.t.Errorf("%s: post %s is %s, want %d", source, mid, value, n%50+1)
		}
	}
	return posts
}

// TestImportBeside adds the posts of a file, by a tool that is killed, to a primary whose role is handed over and back, whose replica is
// killed, heals from damage and is replaced by an empty one, and whose other clients take the places of producers that are idle. Each post is added once, on
// both nodes and in every backup.
func TestImportBeside(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	b := &importBeside{t: t, args: []string{"--schema", "../../weibo.schema", "--aof-retain", "100mb", "--idmp-max-producers", "5", "--idmp-min-idle", "10", "--repl-compare-cpu", "100000"}}
	b.nodes[0] = harness.StartAt(t, freeport.Take(t), t.TempDir(), b.args...)
	b.nodes[1] = harness.StartAt(t, freeport.Take(t), t.TempDir(), append([]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", b.nodes[0].Port)}, b.args...)...)
	b.follows(1)
	var text strings.Builder
	text.WriteString("mid\trepost\n")
	for mid := besideFirst; mid < besideFirst+besidePosts; mid++ {
		fmt.Fprintf(&text, "%d\t%d\n", mid, mid%50+1)
	}
	dir, root := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "posts.tsv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", file, "--to", b.nodes[0].Addr, "--counter", "weibo", "--add", "--resume", filepath.Join(dir, "state"), "--rate", strconv.Itoa(besideRate), "--verify", "none"}
	stop, imported := make(chan struct{}), make(chan string, 1)
	var work sync.WaitGroup
	kills := rand.New(rand.NewPCG(rng.Uint64(), 1))
	work.Go(func() {
		defer b.ended.Store(true)
		killed := false
		for range 60 {
			i := startImport(t, args...)
			ended := make(chan error, 1)
			go func() { ended <- i.cmd.Wait() }()
			select {
			case err := <-ended:
				if err == nil || killed && i.saysComplete() {
					imported <- ""
					return
				}
				imported <- i.out.String()
				return
			case <-time.After(time.Duration(1000+kills.IntN(6000)) * time.Millisecond):
				_ = i.cmd.Process.Kill()
				<-ended
				killed = true
				b.note("importer killed")
			}
		}
		imported <- "it does not end"
	})
	work.Go(func() { b.crowd(stop) })
	work.Go(func() { b.backUp(stop, root) })
	for _, step := range []func(){func() { b.handOver(1) }, func() { b.handOver(0) }, func() { b.replica("same") }, func() { b.replica("damaged") }, func() { b.replica("empty") }} {
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		step()
	}
	if problem := <-imported; problem != "" {
		t.Errorf("the import ended: %s", problem)
	}
	close(stop)
	work.Wait()
	for i := range b.nodes {
		harness.Eventually(t, time.Minute, "each node has all posts", func() bool { return b.posts(b.nodes[i].Addr) == besidePosts })
	}
	counts := map[string]int64{}
	b.count.Range(func(what, n any) bool {
		counts[what.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	t.Log(counts)
	for what, least := range map[string]int64{"FAILOVER": 2, "same replica": 1, "damaged replica": 1, "empty replica": 1, "importer killed": 1, "place found": 6, "no place": 1, "update": 1, "dropped range": 2, "snapshot": 1, "restored backup": 2} {
		if counts[what] < least {
			t.Errorf("%s: %d beside the import, want %d: %v", what, counts[what], least, counts)
		}
	}
	if _, posts, _ := strings.Cut(b.ask(0, "INFO", "replication"), "counterd_compare_posts:"); posts == "" || posts[0] == '0' {
		t.Error("no posts were compared")
	}
}
