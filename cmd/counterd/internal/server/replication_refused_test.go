// Scenario: strangers, tools and nodes that lost their role talk to a primary as replicas do.

package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/vfs"
)

// TestStranger: a Redis that connects as replica is told why not.
func TestStranger(t *testing.T) {
	a := newReplNode(t).start("")
	c := a.dial()
	c.want("REPLCONF listening-port 6380", "+OK")
	c.want("REPLCONF capa eof capa psync2", "+OK")
	if v := c.do("PSYNC ? -1"); v.Kind != '-' || !strings.Contains(v.Text, "Redis server cannot replicate") {
		t.Errorf("PSYNC of a Redis: %s", v)
	}
	if v := c.do("SYNC"); v.Kind != '-' {
		t.Errorf("SYNC: %s", v)
	}
	cli := a.dial() // redis-cli --replica
	cli.want("REPLCONF capa eof", "+OK")
	cli.send("SYNC")
	mark := strings.Repeat("=", 40)
	head := make([]byte, len("$EOF:\r\n")+2*len(mark))
	if _, err := io.ReadFull(cli.r, head); err != nil || string(head) != "$EOF:"+mark+"\r\n"+mark {
		t.Errorf("SYNC: %q %v", head, err)
	}
	w := a.dial()
	w.want("INCR 4.cntcm", ":1")
	w.want("DEL 4", ":1")
	w.want("FLUSHALL", "+OK")
	w.want("ADD COLUMN weibo x hint=8 max=32 suffix=", "+OK")
	w.want("HSET 4 x 6", ":1")
	for _, want := range []string{`["PING"]`, `["SET" "4.cntcm" "1"]`, `["DEL" "4"]`, `["FLUSHALL"]`, `["SCHEMA" `, `["HSET" "4" "x" "6"]`} {
		if got := cli.read().String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	functions := a.dial() // redis-cli --functions-rdb
	functions.want("REPLCONF rdb-only 1", "+OK")
	if v := functions.do("REPLCONF rdb-filter-only functions"); v.Kind != '-' || !strings.Contains(v.Text, "no functions") {
		t.Errorf("functions: %s", v)
	}
	c.want("REPLCONF rdb-only 1", "+OK") // it has a port: a Redis still
	for _, command := range []string{"SYNC", "PSYNC ? -1"} {
		if v := c.do(command); v.Kind != '-' || !strings.Contains(v.Text, "Redis server cannot replicate") {
			t.Errorf("%s of a Redis: %s", command, v)
		}
	}
	if v := a.dial().do("PSYNC ? -1"); v.Kind != '-' {
		t.Errorf("PSYNC without a word: %s", v)
	}
}

// TestDownload: SYNC and PSYNC of redis-cli --rdb are answered by an archive that opens as what the node holds, of a
// primary and of a replica: one that ends at a mark for a client that knows this form, else one of a length.
func TestDownload(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	for i := range 300 {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i), "+OK")
	}
	b.start(a.addr())
	same(t, a, b)
	w.save()
	w.want("COUNTER.DEMOTE weibo 2", "+OK")
	w.want("INCR 3.cntcm", ":4")
	w.save()
	w.want("SET 5.cntcm 99", "+OK")
	same(t, a, b)
	for i, node := range []*replNode{a, b} {
		for j, command := range []string{"SYNC", "PSYNC ? -1", "SYNC"} {
			c := node.dial()
			if j < 2 {
				c.want("REPLCONF capa eof", "+OK")
			}
			c.want("REPLCONF rdb-only 1", "+OK")
			c.send(command)
			if j == 1 {
				if line, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+FULLRESYNC "+a.info("master_replid")+" ") {
					t.Fatalf("%s: %q %v", command, line, err)
				}
			}
			line, err := c.r.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %q %v", command, line, err)
			}
			var content []byte
			if mark, ok := strings.CutPrefix(strings.TrimSpace(line), "$EOF:"); ok {
				for !bytes.HasSuffix(content, []byte(mark)) {
					b, err := c.r.ReadByte()
					if err != nil {
						t.Fatalf("%s: %v after %d bytes", command, err, len(content))
					}
					content = append(content, b)
				}
				content = content[:len(content)-len(mark)]
			} else {
				n, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
				if err != nil || n <= 0 {
					t.Fatalf("%s: %q %v", command, line, err)
				}
				content = make([]byte, n)
				if _, err := io.ReadFull(c.r, content); err != nil {
					t.Fatal(err)
				}
			}
			if eof := strings.HasPrefix(line, "$EOF:"); eof != (j < 2) {
				t.Errorf("%s: %q", command, line)
			}
			path := filepath.Join(t.TempDir(), "dump")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			archive, err := archive.Open(vfs.OS(), path)
			if err != nil {
				t.Fatal(err)
			}
			if err := archive.Verify(nil); err != nil {
				t.Error(err)
			}
			opts := node.opts
			opts.FS, opts.Manual = vfs.NewView(archive, nil), true
			store, err := counter.Open(path, opts)
			if err != nil {
				t.Fatal(err)
			}
			if store.Replica() != (i == 1) || store.Replication().Written() != a.srv.Store().Replication().Written() {
				t.Errorf("node %d: replica %t, offset %d", i, store.Replica(), store.Replication().Written())
			}
			batch := store.NewBatch()
			if err := batch.Begin(); err != nil {
				t.Fatal(err)
			}
			d, err := counter.NewReader(batch).Digest("weibo", 0, 1<<63)
			batch.End()
			if got, want := fmt.Sprintf("digest=%016x", d.Sum), w.do("COUNTER.DIGEST").String(); err != nil || !strings.Contains(want, got) {
				t.Errorf("node %d, %s: %s %v, want %s", i, command, got, err, want)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			if err := archive.Close(); err != nil {
				t.Error(err)
			}
			c.want("PING", "+PONG") // the connection is as it was
		}
	}
	// Images of the snapshot are gone: the answer is an error, until they are written anew.
	images, err := filepath.Glob(filepath.Join(a.dir, "rdb", "*.hot"))
	if err != nil || len(images) == 0 {
		t.Fatal(images, err)
	}
	for _, path := range images {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	until(t, "an archive", func() bool {
		c := a.dial()
		c.want("REPLCONF rdb-only 1", "+OK")
		c.send("SYNC")
		line, _ := c.r.ReadString('\n')
		if strings.HasPrefix(line, "-ERR images of the snapshot are damaged") {
			refused++
			return false
		}
		n, err := strconv.ParseInt(strings.Trim(line, "$\r\n"), 10, 64)
		if err != nil {
			t.Fatalf("SYNC answered %q", line)
		}
		if _, err := io.CopyN(io.Discard, c.r, n); err != nil {
			t.Error(err)
		}
		return true
	})
	if refused == 0 {
		t.Error("an archive of images that are gone was begun")
	}
}

// TestAwaiting: a primary that Sentinel watched takes changes after a restart only when it is named.
func TestAwaiting(t *testing.T) {
	a := newReplNode(t).start("")
	hello := func(port int) string {
		return fmt.Sprintf("PUBLISH __sentinel__:hello 127.0.0.1,26379,0123,0,mymaster,127.0.0.1,%d,0", port)
	}
	a.dial().want("SET 1.cntcm 1", "+OK")
	a.dial().want(hello(a.port), ":0")
	a.dial().want("SET 1.cntcm 2", "+OK")
	a.stop()
	a.start("")
	a.dial().want("SET 1.cntcm 3", "-"+role.ErrAwait)
	a.dial().want("GET 1.cntcm", `"2"`)
	a.dial().want(hello(a.port+1), ":0")
	a.dial().want("SET 1.cntcm 3", "-"+role.ErrAwait)
	a.dial().want(hello(a.port), ":0")
	a.dial().want("SET 1.cntcm 3", "+OK")
	a.stop()
	a.start("")
	a.dial().want("REPLICAOF NO ONE", "+OK")
	a.dial().want("SET 1.cntcm 4", "+OK")
}

// TestDeposed: a primary that Sentinel named refuses changes from when it hears of a primary of a later epoch until it
// is told its role.
func TestDeposed(t *testing.T) {
	a := newReplNode(t).start("")
	hello := func(name string, port, epoch int) {
		t.Helper()
		a.dial().want(fmt.Sprintf("PUBLISH __sentinel__:hello 127.0.0.1,26379,0123,%d,%s,127.0.0.1,%d,%d", epoch, name, port, epoch), ":0")
	}
	n := 0
	takes := func(reply string) {
		t.Helper()
		n++
		a.dial().want(fmt.Sprintf("SET 1.cntcm %d", n), reply)
	}
	other := a.port + 1
	hello("mymaster", other, 7) // never named: it is a primary by somebody's hand
	takes("+OK")
	hello("mymaster", a.port, 6) // what a Sentinel says that has not heard of epoch 7 yet
	hello("mymaster", other, 8)
	takes("+OK")
	hello("mymaster", a.port, 9)
	hello("mymaster", other, 8)
	hello("mymaster", other, 9)
	hello("another", other, 10)
	takes("+OK")
	hello("mymaster", other, 10)
	takes("-" + role.ErrDeposed)
	a.dial().want("GET 1.cntcm", `"3"`)
	hello("mymaster", a.port, 9)
	takes("-" + role.ErrDeposed)
	hello("mymaster", a.port, 11)
	takes("+OK")
	hello("mymaster", other, 12)
	takes("-" + role.ErrDeposed)
	a.dial().want("REPLICAOF NO ONE", "+OK")
	takes("+OK")
}

// TestConfigFile: CONFIG REWRITE keeps what a person wrote and persists what changed, the role too.
func TestConfigFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counterd.conf")
	text := "# mine\nport 7000\nslave-priority 90\nreplicaof a 1\nrename-command x y\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := wireServe(t, func(c *config.Config) {
		c.ConfigFile, c.UnixSocketPerm = path, 0o700
	})
	c := wireDial(t, s, 2)
	c.want("CONFIG SET replica-priority 50 requirepass a\"b# maxclients 99", "+OK")
	c.want("CONFIG REWRITE", "+OK")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config.Parse(string(got))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, line := range settings {
		values[line.Name] = line.Value
	}
	for name, want := range map[string]string{"replica-priority": "50", "requirepass": `a"b#`, "maxclients": "99", "rename-command": "x y", "port": "0"} {
		if values[name] != want {
			t.Errorf("%s: got %q, want %q", name, values[name], want)
		}
	}
	if _, ok := values["replicaof"]; ok || !strings.HasPrefix(string(got), "# mine\n") {
		t.Errorf("got\n%s", got)
	}
	c.want("CONFIG REWRITE", "+OK")
	if again, _ := os.ReadFile(path); string(again) != string(got) {
		t.Errorf("a second rewrite changed the file:\n%s", again)
	}
}

// TestWatcherIsOnline: redis-cli --replica, which answers the mark behind the snapshot, is shown as online, and is none of
// the replicas that ROLE lists.
func TestWatcherIsOnline(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{}, nil)
	cli, c := wireDial(t, s, 2), wireDial(t, s, 2)
	state := func() string {
		fields, _ := infoFields(t, c.do("INFO replication").Text)
		return fields["slave0"]
	}
	cli.want("REPLCONF capa eof", "+OK")
	cli.send("SYNC")
	mark := make([]byte, len("$EOF:\r\n")+2*40)
	if _, err := io.ReadFull(cli.r, mark); err != nil {
		t.Fatal(err)
	}
	cli.send("REPLCONF ACK 0")
	until(t, "the watcher is online", func() bool { return strings.Contains(state(), "state=online") })
	if got := c.do("ROLE").String(); strings.Contains(got, "127.0.0.1") {
		t.Errorf("ROLE: %s", got)
	}
}
