package migration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/counterd/counterd/cmd/counterd/e2e/consumers"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// feedPosts is how many posts the writer of a fed node counts on.
const feedPosts = 40

// fed is a node that is written to and fed, through a counterctl that may be killed.
type fed struct {
	t      testing.TB
	rng    *rand.Rand
	source *harness.Server
	args   []string // of the node
	tool   *exec.Cmd
	log    *harness.LogBuffer
}

func newFed(t testing.TB, rng *rand.Rand, args ...string) *fed {
	f := &fed{t: t, rng: rng, args: args, log: new(harness.LogBuffer)}
	f.source = harness.StartAt(t, freeport.Take(t), t.TempDir(), args...)
	harness.SeedSchema(t, f.source.Dial(t))
	t.Cleanup(func() {
		f.kill()
		if t.Failed() {
			t.Logf("counterctl feed:\n%s", f.log)
		}
	})
	return f
}

// start starts the tool.
func (f *fed) start(addrs string, args ...string) {
	f.t.Helper()
	path, err := programs.Path("counterctl")
	if err != nil {
		f.t.Fatal(err)
	}
	f.tool = exec.Command(path, append([]string{"feed", addrs, "--from", "OLDEST"}, args...)...)
	f.tool.Stdout, f.tool.Stderr = f.log, f.log
	f.tool.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := f.tool.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fed) kill() {
	if f.tool != nil {
		_ = f.tool.Process.Kill()
		_ = f.tool.Wait()
		f.tool = nil
	}
}

// stop ends the tool by SIGTERM, which is no error.
func (f *fed) stop() {
	f.t.Helper()
	_ = f.tool.Process.Signal(syscall.SIGTERM)
	if err := f.tool.Wait(); err != nil {
		f.t.Errorf("counterctl feed: %v\n%s", err, f.log)
	}
	f.tool = nil
}

// killSource kills the node and starts it again.
func (f *fed) killSource() {
	port, dir := f.source.Port, f.source.Dir
	f.source.Kill()
	f.source = harness.StartAt(f.t, port, dir, f.args...)
}

// write increments posts, and deletes some, until stop is closed. Changes whose reply was lost may have been made.
func (f *fed) write(seed uint64, addr func() string, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for {
		c, err := harness.DialTimeout("tcp", addr(), time.Second)
		for err == nil {
			select {
			case <-stop:
				c.Close()
				return
			default:
			}
			for range 20 {
				mid := strconv.Itoa(rng.IntN(feedPosts))
				if rng.IntN(50) == 0 {
					_, err = c.TryDo("DEL", mid)
				} else {
					_, err = c.TryDo("INCR", mid+".cntrn")
				}
				if err != nil {
					break
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		if c != nil {
			c.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// begin starts the writer, and returns what ends it.
func (f *fed) begin(addr func() string) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	seed := f.rng.Uint64()
	go func() {
		defer close(ended)
		f.write(seed, addr, stop)
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}

// posts are the reposts of each post that is there.
type posts map[string]int64

// stored returns the posts of a node.
func stored(t testing.TB, s *harness.Server) posts {
	t.Helper()
	c, all := s.Dial(t), posts{}
	defer c.Close()
	for mid := range feedPosts {
		key := strconv.Itoa(mid)
		if v := c.Do("GET", key+".cntrn"); v.Raw != "$-1\r\n" {
			n, err := strconv.ParseInt(v.Text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all[key] = n
		}
	}
	return all
}

// replay makes posts of lines. Each increment of a post must be the one behind the last, so none was lost, came twice or too early.
func replay(t testing.TB, lines []string, all posts) posts {
	t.Helper()
	for i, line := range lines {
		var change struct {
			Position string
			Parts    []struct {
				Kind, Counter, Mid string
				Values             map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil || change.Position == "" {
			t.Fatalf("line %d is %q: %v", i, line, err)
		}
		for _, p := range change.Parts {
			switch p.Kind {
			case "set":
				if got := p.Values["repost"]; got != all[p.Mid]+1 {
					t.Fatalf("line %d: post %s has %d behind %d", i, p.Mid, got, all[p.Mid])
				}
				all[p.Mid]++
			case "del":
				if _, there := all[p.Mid]; !there {
					t.Fatalf("line %d: post %s is deleted and was not there", i, p.Mid)
				}
				delete(all, p.Mid)
			}
		}
	}
	return all
}

// same waits until the changes in the sink make the posts of the node.
func (f *fed) same(lines func() []string) {
	f.t.Helper()
	want, got := fmt.Sprint(stored(f.t, f.source)), ""
	defer func() {
		if got != want {
			f.t.Logf("the sink has  %s\nthe node has %s", got, want)
		}
	}()
	harness.Eventually(f.t, harness.IoTimeout, "the sink to have what the node has", func() bool {
		got = fmt.Sprint(replay(f.t, lines(), posts{}))
		return got == want
	})
}

// target is a sink that may be killed.
type target struct {
	to    []string
	kill  func()
	lines func() []string
}

func fileTarget(t testing.TB, name string) *target {
	path := filepath.Join(t.TempDir(), name)
	return &target{to: []string{"--to", path}, kill: func() {}, lines: func() []string { return fileLines(t, path) }}
}

// fileLines are the whole lines of a file that is perhaps being written.
func fileLines(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(data)
	if strings.HasSuffix(path, ".zst") {
		d, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		r = d
	}
	text, _ := io.ReadAll(r) // the end may be torn
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

// targetOf is the target of a sink, with all lines that it had so far.
func targetOf(t testing.TB, sink *consumers.Sink) *target {
	var all []string
	return &target{to: sink.To, kill: sink.Break, lines: func() []string {
		lines, err := sink.Read()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines...)
		return all
	}}
}

// kafkaPlace is the variable of the environment that makes the test's program a cluster of Kafka: its port and folder.
const kafkaPlace = "COUNTERD_TEST_KAFKA"

// serveKafka serves Kafka until SIGTERM.
func serveKafka(place string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	port, dir, _ := strings.Cut(place, " ")
	var c *kfake.Cluster
	n, err := strconv.Atoi(port)
	if err == nil {
		c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.SeedTopics(1, "changes"), kfake.DataDir(dir), kfake.SyncWrites())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
	<-stop
	c.Close()
	os.Exit(0)
}

// processKafkaTarget is a cluster of Kafka in a process of its own. It ends in order: with kill -9 the simulated broker was stuck once
// in 75 kills, for a reason that is not known yet.
func processKafkaTarget(t testing.TB) *target {
	addr, dir := fmt.Sprint("127.0.0.1:", freeport.Take(t)), t.TempDir()
	var process *exec.Cmd
	kill := func() { _, _ = process.Process.Signal(syscall.SIGTERM), process.Wait() }
	start := func() {
		process = exec.Command(os.Args[0])
		process.Env = append(os.Environ(), kafkaPlace+"="+strings.TrimPrefix(addr, "127.0.0.1:")+" "+dir)
		process.Stderr, process.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, harness.IoTimeout, "Kafka answers", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	start()
	t.Cleanup(func() { kill() })
	return &target{to: []string{"--to", "kafka://" + addr + "/changes"},
		kill: func() {
			kill()
			start()
		},
		lines: func() []string {
			lines, _, err := consumers.Committed(t.Context(), addr, 0)
			if err != nil {
				t.Fatal(err)
			}
			return lines
		}}
}

// TestFeedKilled kills the node, the tool and the sink in random order: each change is in the sink once, and in order.
func TestFeedKilled(t *testing.T) {
	for _, name := range []string{"jsonl", "jsonl.zst", "redis", "http", "kafka", "kafka process"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng, _ := harness.Random(t)
			var sink *target
			switch name {
			case "redis":
				stream, ok := consumers.NewStream(t)
				if !ok {
					return
				}
				sink = targetOf(t, stream)
			case "http":
				sink = targetOf(t, consumers.NewWeb(t, rng))
			case "kafka":
				sink = targetOf(t, consumers.NewKafka(t, rng))
			case "kafka process":
				sink = processKafkaTarget(t)
			default:
				sink = fileTarget(t, "changes."+name)
			}
			f := newFed(t, rng)
			addr := f.source.Addr
			f.start(addr, sink.to...)
			end := f.begin(func() string { return addr })
			defer end()
			for range harness.Scaled(6) {
				time.Sleep(harness.RandomPause(rng, 10*time.Millisecond, 250*time.Millisecond))
				switch rng.IntN(4) {
				case 0:
					f.killSource()
				case 1:
					sink.kill()
				default:
					f.kill()
					f.start(addr, sink.to...)
				}
			}
			end()
			f.same(sink.lines)
			f.stop()
		})
	}
}

// TestFeedFailover kills a primary whose replica takes over, with a tool that knows both and asks for changes that the replica has:
// the changes in the file make the posts of the new primary.
func TestFeedFailover(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	f := newFed(t, rng)
	other := harness.StartAt(t, freeport.Take(t), t.TempDir(), "--replicaof", "127.0.0.1 "+strconv.Itoa(f.source.Port))
	sink := fileTarget(t, "changes.jsonl")
	var mu sync.Mutex
	primary := f.source.Addr
	f.start(f.source.Addr+","+other.Addr, append(sink.to, "--safe", "1")...)
	end := f.begin(func() string {
		mu.Lock()
		defer mu.Unlock()
		return primary
	})
	defer end()
	for range harness.Scaled(2) {
		from := len(sink.lines())
		harness.Eventually(t, harness.IoTimeout, "changes", func() bool { return len(sink.lines()) > from+50 })
		f.source.Kill()
		c := other.Dial(t)
		c.Want("+OK\r\n", "REPLICAOF", "NO", "ONE")
		c.Close()
		port, dir := f.source.Port, f.source.Dir
		mu.Lock()
		primary = other.Addr
		mu.Unlock()
		f.source, other = other, harness.StartAt(t, port, dir, "--replicaof", "127.0.0.1 "+strconv.Itoa(other.Port))
	}
	end()
	f.same(sink.lines)
	f.stop()
}

// TestFeedBehindExport exports a node while it is written to, and feeds the changes behind the position of the export: the rows and the
// changes are the posts of the node.
func TestFeedBehindExport(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	f := newFed(t, rng)
	addr := f.source.Addr
	end := f.begin(func() string { return addr })
	defer end()
	dir := t.TempDir()
	rows, place, changes := filepath.Join(dir, "weibo.tsv"), filepath.Join(dir, "position"), filepath.Join(dir, "changes.jsonl")
	harness.WantCtl(t, 0, []string{"export", addr, "weibo", "--columns", "repost", "--out", rows, "--position", place}, "counterctl feed --from "+place)
	all := exportedPosts(t, rows)
	time.Sleep(50 * time.Millisecond)
	end()
	want := fmt.Sprint(stored(t, f.source))
	harness.Eventually(t, harness.IoTimeout, "the rows and the changes to be what the node has", func() bool {
		harness.WantCtl(t, 0, []string{"feed", addr, "--from", place, "--to", changes, "--until-caught-up"}, "it has everything up to the position")
		return fmt.Sprint(all.with(t, changes)) == want
	})
}

// TestFeedBehindDirectory exports a directory, and feeds what a server that starts on it changes.
func TestFeedBehindDirectory(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	s := harness.StartIn(t, dir)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want(":1\r\n", "INCR", "5.cntrn")
	s.Stop()
	place, changes := filepath.Join(out, "position"), filepath.Join(out, "changes.jsonl")
	harness.WantCtl(t, 0, []string{"export", dir, "weibo", "--out", filepath.Join(out, "weibo.tsv"), "--position", place}, "weibo: 1 posts")
	s = harness.StartIn(t, dir, "--appendfsync", "always")
	s.Dial(t).Want(":2\r\n", "INCR", "5.cntrn")
	harness.WantCtl(t, 0, []string{"feed", s.Addr, "--from", place, "--to", changes, "--until-caught-up"}, "1 changes to "+changes)
	if lines := fileLines(t, changes); len(lines) != 1 || !strings.Contains(lines[0], `"mid":"5","values":{"repost":2}`) {
		t.Errorf("got %q", lines)
	}
	harness.WantCtl(t, 2, []string{"feed", s.Addr, "--to", filepath.Join(out, "new.jsonl")}, "want --from")
	harness.WantCtl(t, 2, []string{"feed", s.Addr, "--to", "-"}, "standard output keeps no position")
	harness.WantCtl(t, 2, []string{"feed", s.Addr, "--to", "-", "--from", "nowhere"}, "neither a position, nor a file")
}
