package e2e

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
)

// toolsScript makes counters of all sorts: with suffixes and with empty ones, narrow and wide, with defaults.
const toolsScript = schemaScript + plainScript + `add counter wide
add column wide a hint=64 max=64 default=7 suffix=
add column wide b hint=1 max=1 suffix=flag
`

var toolsCounters = []string{"weibo", "n", "h", "wide"}

// scribble writes random values to a server.
func scribble(t testing.TB, c *conn, r *rand.Rand, n int) {
	t.Helper()
	for range n {
		mid := strconv.Itoa(r.IntN(400) * 7919)
		switch r.IntN(8) {
		case 0:
			c.do("DEL", "weibo:"+mid)
		case 1:
			c.do("HSET", "wide:"+mid, "a", strconv.FormatInt(r.Int64(), 10), "b", strconv.Itoa(r.IntN(2)))
		case 2:
			c.do("HSET", "h:"+mid, "a", strconv.FormatInt(r.Int64N(1<<40), 10), "c", "3")
		case 3:
			c.do("SET", "n:"+mid, strconv.FormatInt(r.Int64(), 10))
		case 4:
			c.do("SET", strconv.FormatInt(r.Int64(), 10)+".cntan", strconv.Itoa(r.IntN(1<<31)))
		default:
			c.do("INCRBY", mid+[]string{".cntcm", ".cntrn", ".cntan"}[r.IntN(3)], strconv.Itoa(r.IntN(100_000)))
		}
	}
}

// TestDurableDumpCommands rebuilds a server from what counterctl dump --commands prints, in both forms, from a running
// server and from a stopped one.
func TestDurableDumpCommands(t *testing.T) {
	cli, ok := tool(t, "redis-cli")
	if !ok {
		return
	}
	r, _ := random(t)
	s := start(t)
	c := s.dial(t)
	runScript(t, c, toolsScript)
	scribble(t, c, r, 1000)
	c.want("+OK\r\n", "SAVE")
	scribble(t, c, r, 1000)
	c.want("+OK\r\n", "DROP", "COLUMN", "h", "b")
	c.want("+OK\r\n", "ADD", "COLUMN", "weibo", "later", "hint=4", "max=20", "default=9", "suffix=cntla")
	scribble(t, c, r, 500)
	want := contents(t, s, toolsCounters...)
	schema := c.do("SCHEMA").Raw
	dir := s.dir
	rebuild := func(what string, flags ...string) {
		out, status := counterctl(t, append(append([]string{"dump", "--commands"}, flags...), dir)...)
		if note, rest, found := strings.Cut(out, "\n"); found && strings.HasPrefix(note, "note: ") {
			out = rest
		}
		if status != 0 {
			t.Fatalf("%s: exit status %d\n%.2000s", what, status, out)
		}
		other := start(t)
		cmd := exec.Command(cli, "-p", strconv.Itoa(other.port), "--pipe")
		cmd.Stdin = strings.NewReader(out)
		said, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(said), "errors: 0") {
			t.Fatalf("%s: redis-cli --pipe: %v\n%s", what, err, said)
		}
		sameContents(t, what, contents(t, other, toolsCounters...), want)
		if got := other.dial(t).do("SCHEMA").Raw; got != schema {
			t.Errorf("%s: schema %q, want %q", what, got, schema)
		}
		other.stop()
	}
	rebuild("inline, running")
	rebuild("RESP, running", "--resp")
	s.stop()
	rebuild("inline, stopped")
	one := wantCtl(t, 0, []string{"dump", "--commands", "--counter", "wide", "--mid", "0-7919", dir})
	if strings.Contains(one, "weibo") || strings.Count(one, "HSET wide:") > 2 {
		t.Errorf("filters let through:\n%s", one)
	}
}

// TestDurableRestore restores to offsets and times of which the contents were noted.
func TestDurableRestore(t *testing.T) {
	r, _ := random(t)
	s := start(t, "--aof-retain", "1gb")
	c := s.dial(t)
	runScript(t, c, toolsScript)
	type moment struct {
		offset string
		at     time.Time
		want   map[string]string
	}
	var moments []moment
	for i := range 6 {
		scribble(t, c, r, 200)
		if i%2 == 1 {
			c.want("+OK\r\n", "SAVE")
		}
		moments = append(moments, moment{infoValue(t, c, "persistence", "log_position"), time.Now(), contents(t, s, toolsCounters...)})
		time.Sleep(5 * time.Millisecond) // a frame's time is in ms
	}
	check := func(what string, dir string, m moment) {
		for _, to := range []string{m.offset, m.at.Format(time.RFC3339Nano), "@" + strconv.FormatFloat(float64(m.at.UnixMilli())/1000, 'f', 3, 64)} {
			out := filepath.Join(t.TempDir(), "restored")
			wantCtl(t, 0, []string{"restore", dir, "--to", to, "--out", out}, "restored the state at offset "+m.offset)
			wantCtl(t, 0, []string{"check", out}, "nothing is damaged")
			other := startIn(t, out)
			sameContents(t, what+" to "+to, contents(t, other, toolsCounters...), m.want)
			other.dial(t).want("+OK\r\n", "SET", "5.cntcm", "5")
			other.kill()
			again := startIn(t, out)
			again.dial(t).want(bulkOf("5"), "GET", "5.cntcm")
			again.stop()
		}
	}
	for i, m := range moments {
		if i == 2 { // also of a running server; the others when it has stopped
			check("running", s.dir, m)
		}
	}
	s.stop()
	for _, m := range moments {
		check("stopped", s.dir, m)
	}
	none := filepath.Join(t.TempDir(), "none")
	wantCtl(t, 1, []string{"restore", s.dir, "--to", "99999999", "--out", none}, "cannot be reached", "offset 0 (", moments[5].offset)
	wantCtl(t, 1, []string{"restore", s.dir, "--to", "2001-01-01T00:00:00Z", "--out", none}, "cannot be reached", "offset 0 (")
	wantCtl(t, 2, []string{"restore", s.dir, "--to", "yesterday", "--out", none}, "yesterday")
	wantCtl(t, 2, []string{"restore", s.dir, "--to", "5"}, "--out")
	wantCtl(t, 1, []string{"restore", s.dir, "--to", "5", "--out", t.TempDir()}, "exists")
	if _, err := os.Stat(none); err == nil {
		t.Error("a refused restore left a directory")
	}
}

// TestDurableToolsInUse runs check, dump and restore again and again on a directory of a server under load that makes
// snapshots: what they see is always whole.
func TestDurableToolsInUse(t *testing.T) {
	r, _ := random(t)
	for _, policy := range []string{"always", "everysec"} {
		w := newWriters(4, 20, 4)
		s := start(t, "--appendfsync", policy, "--auto-aof-rewrite-min-size", "1mb")
		control := s.dial(t)
		seedSchema(t, control)
		wait := w.begin(t, s, r)
		var stop atomic.Bool
		saving := make(chan struct{})
		saver := s.dial(t)
		go func() {
			defer close(saving)
			for !stop.Load() {
				if _, err := saver.tryDo("BGSAVE"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		for range max(2, scaled(5)) {
			wantCtl(t, 0, []string{"check", s.dir}, "a server has the directory open", "nothing is damaged")
			wantCtl(t, 0, []string{"dump", "--mid", "1", s.dir}, "segment ")
			if out, status := counterctl(t, "dump", "--commands", "--counter", "weibo", s.dir); status != 0 || !strings.Contains(out, "HSET weibo:") {
				t.Errorf("dump --commands: exit status %d\n%.1000s", status, out)
			}
			wantCtl(t, 0, []string{"restore", s.dir, "--to", time.Now().Format(time.RFC3339Nano), "--out", filepath.Join(t.TempDir(), "out")}, "restored")
		}
		stop.Store(true)
		<-saving
		s.kill()
		wait()
	}
}

// TestDurableToolMisuse checks the command line.
func TestDurableToolMisuse(t *testing.T) {
	empty := t.TempDir()
	wantCtl(t, 0, nil, "check", "dump", "repair", "restore")
	for _, name := range []string{"check", "dump", "repair", "restore"} {
		wantCtl(t, 0, []string{name, "--help"}, "usage: counterctl "+name+" DIR")
		wantCtl(t, 2, []string{name})
		wantCtl(t, 2, []string{name, "--nosuch", empty}, "nosuch")
		if name != "restore" {
			wantCtl(t, 1, []string{name, empty}, "no data directory")
			wantCtl(t, 1, []string{name, filepath.Join(empty, "absent")}, "no such file")
		}
	}
	wantCtl(t, 2, []string{"nosuch"}, "nosuch")
	wantCtl(t, 2, []string{"dump", "--only", "everything", empty}, "everything")
	wantCtl(t, 2, []string{"dump", "--mid", "x", empty}, "--mid")
	wantCtl(t, 2, []string{"dump", "--resp", empty}, "--commands")
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("a tool left %v in a directory that is none of its own, %v", entries, err)
	}
}

// TestDiff: counterctl diff finds the planted differences of two nodes with other blocks and tiers, and none between a
// primary under load and its replica.
func TestDiff(t *testing.T) {
	r, seed := random(t)
	nodes := [2]*server{start(t), start(t)}
	var conns [2]*conn
	for i, s := range nodes {
		conns[i] = s.dial(t)
		runScript(t, conns[i], toolsScript)
		scribble(t, conns[i], rand.New(rand.NewPCG(uint64(seed), 9)), 2000)
	}
	diff := func(a, b *server, more ...string) (string, int) {
		t.Helper()
		return counterctl(t, append([]string{"diff", a.addr, "--with", b.addr}, more...)...)
	}
	if out, status := diff(nodes[0], nodes[1]); status != 0 || out != "no differences\n" {
		t.Fatalf("nodes with the same posts: exit status %d\n%s", status, out)
	}
	mid := strconv.Itoa(r.IntN(400)*7919 + 1)
	conns[0].want("+OK\r\n", "SET", "wide:"+mid, "5")
	conns[1].do("INCR", "9223372036854775807.cntan")
	conns[0].do("HSET", "h:0", "a", "1", "b", "2", "c", "3")
	conns[1].do("HSET", "h:0", "a", "1", "b", "2", "c", "4")
	out, status := diff(nodes[0], nodes[1])
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 1 || len(lines) != 3 {
		t.Fatalf("three planted differences: exit status %d\n%s", status, out)
	}
	for _, want := range []string{"weibo 9223372036854775807: ", "h 0: 1,2,3 on " + nodes[0].addr + ", 1,2,4 on " + nodes[1].addr, "wide " + mid + ": 5,"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if out, status := diff(nodes[0], nodes[1], "--limit", "1"); status != 1 || strings.Count(out, "\n") != 2 {
		t.Errorf("--limit 1: exit status %d\n%s", status, out)
	}
	conns[0].want("+OK\r\n", "ADD", "COUNTER", "more")
	if out, status := diff(nodes[0], nodes[1]); status != 1 || !strings.HasPrefix(out, "the schemas differ:\n") {
		t.Errorf("other schemas: exit status %d\n%s", status, out)
	}
	for _, args := range [][]string{{"diff", nodes[0].addr}, {"diff"}, {"diff", nodes[0].addr, "--with", "127.0.0.1:1"}} {
		if out, status := counterctl(t, args...); status == 0 {
			t.Errorf("%q: exit status 0\n%s", args, out)
		}
	}

	replica := start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(nodes[0].port))
	eventually(t, 20*time.Second, "the replica has everything", func() bool { return conns[0].do("WAIT", "1", "1000").Raw == ":1\r\n" })
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		w, err := dialTimeout("tcp", nodes[0].addr, time.Second)
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				w.close()
				done <- nil
				return
			default:
				_, err = w.tryDo("INCR", strconv.Itoa(i%400*7919)+".cntcm")
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
