package durability

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestDurableDumpCommands rebuilds a server from what counterctl dump --commands prints, in both forms, from a running
// server and from a stopped one.
func TestDurableDumpCommands(t *testing.T) {
	cli, ok := harness.Tool(t, "redis-cli")
	if !ok {
		return
	}
	r, _ := harness.Random(t)
	s := harness.Start(t)
	c := s.Dial(t)
	harness.RunScript(t, c, harness.ToolsScript)
	harness.Scribble(t, c, r, 1000)
	c.Save()
	harness.Scribble(t, c, r, 1000)
	c.Want("+OK\r\n", "DROP", "COLUMN", "h", "b")
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "later", "hint=4", "max=20", "default=9", "suffix=cntla")
	harness.Scribble(t, c, r, 500)
	want := harness.Contents(t, s, harness.ToolsCounters...)
	schema := c.Do("SCHEMA").Raw
	dir := s.Dir
	rebuild := func(what string, flags ...string) {
		out, status := harness.Counterctl(t, append(append([]string{"dump", "--commands"}, flags...), dir)...)
		if note, rest, found := strings.Cut(out, "\n"); found && strings.HasPrefix(note, "note: ") {
			out = rest
		}
		if status != 0 {
			t.Fatalf("%s: exit status %d\n%.2000s", what, status, out)
		}
		other := harness.Start(t)
		cmd := exec.Command(cli, "-p", strconv.Itoa(other.Port), "--pipe")
		cmd.Stdin = strings.NewReader(out)
		said, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(said), "errors: 0") {
			t.Fatalf("%s: redis-cli --pipe: %v\n%s", what, err, said)
		}
		harness.SameContents(t, what, harness.Contents(t, other, harness.ToolsCounters...), want)
		if got := other.Dial(t).Do("SCHEMA").Raw; got != schema {
			t.Errorf("%s: schema %q, want %q", what, got, schema)
		}
		other.Stop()
	}
	rebuild("inline, running")
	rebuild("RESP, running", "--resp")
	s.Stop()
	rebuild("inline, stopped")
	one := harness.WantCtl(t, 0, []string{"dump", "--commands", "--counter", "wide", "--mid", "0-7919", dir})
	if strings.Contains(one, "weibo") || strings.Count(one, "HSET wide:") > 2 {
		t.Errorf("filters let through:\n%s", one)
	}
}

// TestDurableRestore restores to offsets and times of which the contents were noted.
func TestDurableRestore(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	s := harness.Start(t, "--aof-retain", "1gb")
	c := s.Dial(t)
	harness.RunScript(t, c, harness.ToolsScript)
	type moment struct {
		offset string
		at     time.Time
		want   map[string]string
	}
	var moments []moment
	for i := range 6 {
		harness.Scribble(t, c, r, 200)
		if i%2 == 1 {
			c.Save()
		}
		moments = append(moments, moment{harness.InfoValue(t, c, "persistence", "log_position"), time.Now(), harness.Contents(t, s, harness.ToolsCounters...)})
		time.Sleep(5 * time.Millisecond) // a frame's time is in ms
	}
	check := func(what string, dir string, m moment) {
		for _, to := range []string{m.offset, m.at.Format(time.RFC3339Nano), "@" + strconv.FormatFloat(float64(m.at.UnixMilli())/1000, 'f', 3, 64)} {
			out := filepath.Join(t.TempDir(), "restored")
			harness.WantCtl(t, 0, []string{"restore", dir, "--to", to, "--out", out}, "restored the state at offset "+m.offset)
			harness.WantCtl(t, 0, []string{"check", out}, "nothing is damaged")
			other := harness.StartIn(t, out)
			harness.SameContents(t, what+" to "+to, harness.Contents(t, other, harness.ToolsCounters...), m.want)
			other.Dial(t).Want("+OK\r\n", "SET", "5.cntcm", "5")
			other.Kill()
			again := harness.StartIn(t, out)
			again.Dial(t).Want(harness.BulkOf("5"), "GET", "5.cntcm")
			again.Stop()
		}
	}
	for i, m := range moments {
		if i == 2 { // also of a running server; the others when it has stopped
			check("running", s.Dir, m)
		}
	}
	s.Stop()
	for _, m := range moments {
		check("stopped", s.Dir, m)
	}
	none := filepath.Join(t.TempDir(), "none")
	harness.WantCtl(t, 1, []string{"restore", s.Dir, "--to", "99999999", "--out", none}, "cannot be reached", "offset 0 (", moments[5].offset)
	harness.WantCtl(t, 1, []string{"restore", s.Dir, "--to", "2001-01-01T00:00:00Z", "--out", none}, "cannot be reached", "offset 0 (")
	harness.WantCtl(t, 2, []string{"restore", s.Dir, "--to", "yesterday", "--out", none}, "yesterday")
	harness.WantCtl(t, 2, []string{"restore", s.Dir, "--to", "5"}, "--out")
	harness.WantCtl(t, 1, []string{"restore", s.Dir, "--to", "5", "--out", t.TempDir()}, "exists")
	if _, err := os.Stat(none); err == nil {
		t.Error("a refused restore left a directory")
	}
}

// TestDurableToolsInUse runs check, dump and restore again and again on a directory of a server under load that makes
// snapshots: what they see is always whole.
func TestDurableToolsInUse(t *testing.T) {
	r, _ := harness.Random(t)
	for _, policy := range []string{"always", "everysec"} {
		w := harness.NewWriters(4, 20, 4)
		s := harness.Start(t, "--appendfsync", policy, "--auto-aof-rewrite-min-size", "1mb")
		control := s.Dial(t)
		harness.SeedSchema(t, control)
		wait := w.Begin(t, s, r)
		var stop atomic.Bool
		saving := make(chan struct{})
		saver := s.Dial(t)
		go func() {
			defer close(saving)
			for !stop.Load() {
				if _, err := saver.TryDo("BGSAVE"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		for range max(2, harness.Scaled(5)) {
			harness.WantCtl(t, 0, []string{"check", s.Dir}, "a server has the directory open", "nothing is damaged")
			harness.WantCtl(t, 0, []string{"dump", "--mid", "1", s.Dir}, "segment ")
			if out, status := harness.Counterctl(t, "dump", "--commands", "--counter", "weibo", s.Dir); status != 0 || !strings.Contains(out, "HSET weibo:") {
				t.Errorf("dump --commands: exit status %d\n%.1000s", status, out)
			}
			harness.WantCtl(t, 0, []string{"restore", s.Dir, "--to", time.Now().Format(time.RFC3339Nano), "--out", filepath.Join(t.TempDir(), "out")}, "restored")
		}
		stop.Store(true)
		<-saving
		s.Kill()
		wait()
	}
}

// TestDurableToolMisuse checks the command line.
func TestDurableToolMisuse(t *testing.T) {
	empty := t.TempDir()
	harness.WantCtl(t, 0, nil, "check", "dump", "repair", "restore")
	for _, name := range []string{"check", "dump", "repair", "restore"} {
		harness.WantCtl(t, 0, []string{name, "--help"}, "usage: counterctl "+name+" DIR")
		harness.WantCtl(t, 2, []string{name})
		harness.WantCtl(t, 2, []string{name, "--nosuch", empty}, "nosuch")
		if name != "restore" {
			harness.WantCtl(t, 1, []string{name, empty}, "no data directory")
			harness.WantCtl(t, 1, []string{name, filepath.Join(empty, "absent")}, "no such file")
		}
	}
	harness.WantCtl(t, 2, []string{"nosuch"}, "nosuch")
	harness.WantCtl(t, 2, []string{"dump", "--only", "everything", empty}, "everything")
	harness.WantCtl(t, 2, []string{"dump", "--mid", "x", empty}, "--mid")
	harness.WantCtl(t, 2, []string{"dump", "--resp", empty}, "--commands")
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("a tool left %v in a directory that is none of its own, %v", entries, err)
	}
}

// TestDiff: counterctl diff finds the planted differences of two nodes with other blocks and tiers, and none between a
// primary under load and its replica.
func TestDiff(t *testing.T) {
	r, seed := harness.Random(t)
	nodes := [2]*harness.Server{harness.Start(t), harness.Start(t)}
	var conns [2]*harness.Conn
	for i, s := range nodes {
		conns[i] = s.Dial(t)
		harness.RunScript(t, conns[i], harness.ToolsScript)
		harness.Scribble(t, conns[i], rand.New(rand.NewPCG(uint64(seed), 9)), 2000)
	}
	diff := func(a, b *harness.Server, more ...string) (string, int) {
		t.Helper()
		return harness.Counterctl(t, append([]string{"diff", a.Addr, "--with", b.Addr}, more...)...)
	}
	if out, status := diff(nodes[0], nodes[1]); status != 0 || out != "no differences\n" {
		t.Fatalf("nodes with the same posts: exit status %d\n%s", status, out)
	}
	mid := strconv.Itoa(r.IntN(400)*7919 + 1)
	conns[0].Want("+OK\r\n", "SET", "wide:"+mid, "5")
	conns[1].Do("INCR", "9223372036854775807.cntan")
	conns[0].Do("HSET", "h:0", "a", "1", "b", "2", "c", "3")
	conns[1].Do("HSET", "h:0", "a", "1", "b", "2", "c", "4")
	out, status := diff(nodes[0], nodes[1])
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 1 || len(lines) != 3 {
		t.Fatalf("three planted differences: exit status %d\n%s", status, out)
	}
	for _, want := range []string{"weibo 9223372036854775807: ", "h 0: 1,2,3 on " + nodes[0].Addr + ", 1,2,4 on " + nodes[1].Addr, "wide " + mid + ": 5,"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if out, status := diff(nodes[0], nodes[1], "--limit", "1"); status != 1 || strings.Count(out, "\n") != 2 {
		t.Errorf("--limit 1: exit status %d\n%s", status, out)
	}
	conns[0].Want("+OK\r\n", "ADD", "COUNTER", "more")
	if out, status := diff(nodes[0], nodes[1]); status != 1 || !strings.HasPrefix(out, "the schemas differ:\n") {
		t.Errorf("other schemas: exit status %d\n%s", status, out)
	}
	for _, args := range [][]string{{"diff", nodes[0].Addr}, {"diff"}, {"diff", nodes[0].Addr, "--with", "127.0.0.1:1"}} {
		if out, status := harness.Counterctl(t, args...); status == 0 {
			t.Errorf("%q: exit status 0\n%s", args, out)
		}
	}

	replica := harness.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(nodes[0].Port))
	harness.Eventually(t, time.Minute, "the replica has everything", func() bool { return conns[0].Do("WAIT", "1", "1000").Raw == ":1\r\n" })
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		w, err := harness.DialTimeout("tcp", nodes[0].Addr, time.Second)
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				w.Close()
				done <- nil
				return
			default:
				_, err = w.TryDo("INCR", strconv.Itoa(i%400*7919)+".cntcm")
				time.Sleep(time.Millisecond)
			}
		}
		done <- err
	}()
	if out, status := diff(nodes[0], replica); status != 0 {
		t.Errorf("a primary under load and its replica: exit status %d\n%s", status, out)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
