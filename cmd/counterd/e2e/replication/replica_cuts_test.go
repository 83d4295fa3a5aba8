package replication

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// chain is a primary, a replica, and a replica of the replica, each behind a proxy that cuts for the next:
//
//	nodes[0] <- links[0] <- nodes[1] <- links[1] <- nodes[2]
type chain struct {
	t     testing.TB
	nodes [3]*chainNode
	links [2]*cutproxy.Proxy
}

// chainNode is a node over all its restarts.
type chainNode struct {
	*harness.Server // the one that runs, or ran last
	port            int
	dir             string
	args            []string
	old             []*harness.LogBuffer // of the processes before
}

// startChain starts the primary with some posts and a snapshot, and its replicas, over links that cut nothing yet.
func startChain(t testing.TB, r *rand.Rand, posts int, args ...string) *chain {
	t.Helper()
	ch := &chain{t: t}
	for i := range ch.nodes {
		ch.nodes[i] = &chainNode{port: harness.LowPort(t, rand.New(rand.NewPCG(r.Uint64(), uint64(os.Getpid())))), dir: t.TempDir()}
		ch.nodes[i].args = append([]string{"--repl-timeout", "3"}, args...)
	}
	for i := range ch.links {
		ch.links[i] = cutproxy.New(t, ch.nodes[i].port, r.Uint64(), true)
		ch.nodes[i+1].args = append(ch.nodes[i+1].args, "--replicaof", ch.links[i].Address())
	}
	ch.start(0)
	c := ch.nodes[0].Dial(t)
	harness.SeedSchema(t, c)
	if posts > 0 {
		harness.ColdPosts{N: posts}.Load(t, ch.nodes[0].Server)
		c.Save()
	}
	for i := 1; i < len(ch.nodes); i++ {
		ch.start(i)
		ch.await(i)
	}
	return ch
}

// start starts node i, again.
func (ch *chain) start(i int) {
	ch.t.Helper()
	n := ch.nodes[i]
	if n.Server != nil {
		n.old = append(n.old, n.Log)
	}
	n.Server = harness.StartAt(ch.t, n.port, n.dir, n.args...)
}

// await waits until node i's link is up and it has all that the primary has.
func (ch *chain) await(i int) {
	ch.t.Helper()
	what := fmt.Sprintf("node %d has the primary's log (INFO replication says %q, %q)", i, harness.ReplicationField(ch.nodes[i].Server, "master_link_status"), harness.ReplicationField(ch.nodes[i].Server, "counterd_link_error"))
	harness.Eventually(ch.t, 60*time.Second, what, func() bool {
		return harness.ReplicationField(ch.nodes[i].Server, "master_link_status") == "up" &&
			harness.ReplicationField(ch.nodes[i].Server, "slave_repl_offset") == harness.ReplicationField(ch.nodes[0].Server, "master_repl_offset")
	})
}

// said counts the lines of all logs of a node that hold a text.
func (n *chainNode) said(text string) (count int) {
	for _, l := range append([]*harness.LogBuffer{n.Log}, n.old...) {
		count += strings.Count(l.From(0), text)
	}
	return count
}

// equal waits until all nodes have one log end, and compares digests.
func (ch *chain) equal() {
	ch.t.Helper()
	for _, l := range ch.links {
		l.Smoothly(true)
	}
	var digests [3]string
	for i, n := range ch.nodes {
		if i > 0 {
			ch.await(i)
		}
		c := n.Dial(ch.t)
		digests[i] = c.Do("COUNTER.DIGEST").Raw
		c.Close()
		if digests[i] != digests[0] {
			ch.t.Errorf("node %d has digest %q, the primary %q", i, digests[i], digests[0])
		}
	}
}

// stop ends all nodes and compares their logs, byte by byte, from the oldest offset that two of them have. It returns
// how many bytes were compared.
func (ch *chain) stop() (compared int) {
	ch.t.Helper()
	end, err := strconv.ParseUint(harness.ReplicationField(ch.nodes[0].Server, "master_repl_offset"), 10, 64)
	if err != nil {
		ch.t.Fatal(err)
	}
	for i := len(ch.nodes) - 1; i >= 0; i-- {
		ch.nodes[i].Stop()
	}
	first, log := readLog(ch.t, ch.nodes[0].dir, end)
	for i, n := range ch.nodes[1:] {
		from, other := readLog(ch.t, n.dir, end)
		at := max(first, from)
		a, b := log[at-first:], other[at-from:]
		if !bytes.Equal(a, b) {
			k := 0
			for k < len(a) && k < len(b) && a[k] == b[k] {
				k++
			}
			ch.t.Errorf("the logs of node %d and the primary differ at %d, of %d..%d", i+1, at+uint64(k), at, end)
		}
		compared += len(a)
	}
	return compared
}

// readLog returns the bytes of a log, whatever its segments are, up to an offset.
func readLog(t testing.TB, dir string, end uint64) (first uint64, log []byte) {
	t.Helper()
	walked, err := logfile.Walk(vfs.OS(), dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		log = append(log, f.Raw...)
		return nil
	}})
	if err != nil || walked.End < end || walked.First+uint64(len(log)) != walked.End {
		t.Fatalf("the log in %s, %d bytes from %d, ends at %d, want %d: %v", dir, len(log), walked.First, walked.End, end, err)
	}
	return walked.First, log[:end-walked.First]
}

// ask sends a request; that the node may be down does not matter.
func (ch *chain) ask(i int, args ...string) {
	c, err := harness.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ch.nodes[i].port)), time.Second)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.TryDo(args...)
}

// disturb changes the schema, and makes snapshots and cold files on any node, until stop is closed.
func (ch *chain) disturb(r *rand.Rand, posts int, stop <-chan struct{}) {
	for columns := 0; ; {
		select {
		case <-stop:
			return
		case <-time.After(harness.RandomPause(r, 10*time.Millisecond, 120*time.Millisecond)):
		}
		switch r.IntN(8) {
		case 0:
			columns++
			name := fmt.Sprintf("x%d", columns)
			ch.ask(0, "ADD", "COLUMN", "weibo", name, fmt.Sprintf("hint=%d", 2+r.IntN(10)), "max=30", fmt.Sprintf("default=%d", r.IntN(3)), "suffix="+name)
			ch.ask(0, "SET", "12345."+name, "3")
		case 1:
			if columns > 0 {
				ch.ask(0, "DROP", "COLUMN", "weibo", fmt.Sprintf("x%d", 1+r.IntN(columns)))
			}
		case 2, 3:
			ch.ask(r.IntN(len(ch.nodes)), "BGSAVE")
		default:
			if posts > 0 {
				ch.ask(r.IntN(len(ch.nodes)), []string{"COUNTER.DEMOTE", "COUNTER.PROMOTE"}[r.IntN(2)], "weibo", strconv.FormatUint(harness.ColdPosts{}.Mid(r.IntN(posts)), 10))
			}
		}
	}
}

// TestReplicaCuts cuts the links of a primary, its replica and that one's replica at random bytes, and restarts all
// three by kill -9 and SIGTERM, while several connections write. When it is over all nodes hold what was acknowledged,
// each increment once, in logs of the same bytes; and nothing was ever copied anew.
func TestReplicaCuts(t *testing.T) {
	t.Parallel()
	cutAndRestart(t, int64(harness.Scaled(20)), harness.Scaled(5), "4gb")
}

// TestReplicaCutsCopies is TestReplicaCuts where the log is kept for snapshots only: a replica that was away may find
// it gone and take a full copy, under cuts, load, snapshots and demotions.
func TestReplicaCutsCopies(t *testing.T) {
	cutAndRestart(t, int64(harness.Scaled(10)), harness.Scaled(4), "0")
}

func cutAndRestart(t *testing.T, cuts int64, restarts int, retain string) {
	r, _ := harness.Random(t)
	const posts = 100_000
	began := time.Now()
	ch := startChain(t, r, posts, "--auto-aof-rewrite-min-size", "1mb", "--aof-retain", retain)
	full := [3]int{0, 1, 1} // copies that each node took, of what was there before it came
	for _, l := range ch.links {
		if retain == "0" {
			l.SetSpan(22) // else no copy would ever come to its end
		}
		l.Smoothly(false)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	writers := make([]*harness.ExactWriter, 4)
	failed := make(chan error, len(writers))
	for i := range writers {
		writers[i] = harness.NewExactWriter(ch.nodes[0].port, i, r.Uint64())
		load.Go(func() {
			if err := writers[i].Run(stop); err != nil {
				failed <- fmt.Errorf("writer %d: %w", i, err)
			}
		})
	}
	other := rand.New(rand.NewPCG(r.Uint64(), 0))
	load.Go(func() { ch.disturb(other, posts, stop) })
	broken := func() bool {
		select {
		case err := <-failed:
			t.Error(err)
			return true
		default:
			return t.Failed()
		}
	}
	total := func() int64 { return ch.links[0].Total() + ch.links[1].Total() }
	killed, done := 0, 0
	for (done < restarts || total() < cuts) && !broken() {
		if done == restarts || total()*int64(restarts) < int64(done)*cuts {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) > time.Duration(cuts)*10*time.Second {
				t.Fatalf("%d cuts and %d restarts in %v", total(), done, time.Since(began))
			}
			continue
		}
		time.Sleep(harness.RandomPause(r, 0, 100*time.Millisecond))
		down := []int{r.IntN(3)}
		away := 0 // a replica that stays away until its feeder's log is gone
		if retain == "0" && r.IntN(3) > 0 {
			away = 1 + r.IntN(2)
			down = []int{away, away - 1}
		} else if r.IntN(5) == 0 {
			down = append(down, (down[0]+1)%3)
		}
		for _, i := range down {
			if r.IntN(2) == 0 {
				ch.nodes[i].Kill()
				ch.nodes[i].CheckLog()
				killed++
			} else {
				ch.nodes[i].Stop()
			}
			done++
		}
		time.Sleep(harness.RandomPause(r, 0, 100*time.Millisecond))
		for k := len(down) - 1; k >= 0; k-- {
			if k == 0 && away > 0 {
				for range 3 { // the feeder has begun a segment; after two snapshots it needs those before no more
					time.Sleep(50 * time.Millisecond)
					ch.ask(away-1, "SAVE")
				}
			}
			ch.start(down[k])
		}
	}
	close(stop)
	load.Wait()
	if broken() {
		return
	}
	ch.equal()
	acked, wrong, connections, all := int64(0), 0, int64(0), 0
	for _, w := range writers {
		acked, connections, all = acked+w.Acked, connections+w.Tries, all+len(w.Posts)
		for _, n := range ch.nodes {
			wrong += w.Compare(t, n.Server)
		}
	}
	partial := 0
	for i, n := range ch.nodes {
		if got := n.said("copied the snapshot of the primary"); retain == "0" {
			full[i] = got
		} else if got != full[i] {
			t.Errorf("node %d took %d full copies, want %d", i, got, full[i])
		}
		partial += n.said("resumed replication from the primary's log")
		if got := n.said("removed changes that only this node had"); got != 0 {
			t.Errorf("node %d took changes back %d times: a process that dies loses nothing", i, got)
		}
		if files, _ := filepath.Glob(filepath.Join(n.dir, "diverged-*")); len(files) > 0 {
			t.Errorf("node %d saved tails: %q", i, files)
		}
	}
	compared := ch.stop()
	for _, n := range ch.nodes {
		harness.WantCtl(t, 0, []string{"check", n.dir}, "nothing is damaged")
	}
	var ways [cutproxy.Ways]int64
	for _, l := range ch.links {
		for i, cuts := range l.Cuts() {
			ways[i] += cuts
		}
	}
	t.Logf("%d cuts (closed, reset, one way, silent: %v), %d restarts (%d by kill -9), %d increments acknowledged over %d connections, %d posts, %d wrong on 3 nodes, %d times gone on, %d full copies, %d bytes of log compared, %v",
		total(), ways, done, killed, acked, connections, all, wrong, partial, full[1]+full[2], compared, time.Since(began).Round(time.Millisecond))
}
