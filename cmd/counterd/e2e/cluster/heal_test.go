package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// damage damages the first file of each pattern of a node that does not run, and returns a function that repairs them.
func (p *process) damage(make func(text []byte) []byte, patterns ...string) (undo func()) {
	p.c.t.Helper()
	kept := map[string][]byte{}
	write := func(path string, text []byte) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			p.c.t.Fatal(err)
		}
		if text == nil {
			return
		}
		if err := os.WriteFile(path, text, 0o640); err != nil {
			p.c.t.Fatal(err)
		}
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(p.dir, pattern))
		if err != nil || len(files) == 0 {
			p.c.t.Fatalf("%s: no file, %v", pattern, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			p.c.t.Fatal(err)
		}
		kept[files[0]] = append([]byte(nil), text...)
		write(files[0], make(text))
	}
	return func() {
		for path, text := range kept {
			write(path, text)
		}
	}
}

// sets is how many files and folders of a node are set aside.
func (p *process) sets() int {
	files, _ := filepath.Glob(filepath.Join(p.dir, "*.damaged-*"))
	return len(files)
}

// waits starts nodes that wait for another one to lead.
func (c *cluster) waits(list ...*process) {
	c.t.Helper()
	for _, p := range list {
		if err := p.launch(); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, p := range list {
		harness.Eventually(c.t, time.Minute, "the node waits", func() bool {
			return strings.Contains(p.Log.String(), "nothing is set aside until another node leads the shard")
		})
	}
}

// TestClusterDamagedAtOnce damages all nodes of a shard at once, each in another way. Nobody sets its files aside, as nobody has
// the data open. When one of them is mended, it leads, and the others copy its data. The only node in sync refuses its start, and a
// primary that is damaged alone is a replica, and whole, soon.
func TestClusterDamagedAtOnce(t *testing.T) {
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 1, replicas: 2, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	c.fill(5000)
	for _, p := range c.nodes { // else the damaged part may be a torn tail
		harness.AwaitClaim(t, p.Addr, p.dir)
	}
	rdb := c.client()
	defer rdb.Close()
	last := func(want string) {
		t.Helper()
		harness.Eventually(t, time.Minute, "the value is "+want, func() bool {
			got, err := rdb.Get(context.Background(), nKey(6<<56+4000)).Result()
			if err == nil && got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			return err == nil
		})
	}
	flip := func(text []byte) []byte { text[len(strings.TrimRight(string(text), "\x00"))/2] ^= 1; return text }
	damages := []func(p *process) func(){
		func(p *process) func() {
			return p.damage(func([]byte) []byte { return []byte{} }, "HISTORY", "HISTORY.copy")
		},
		func(p *process) func() { return p.damage(flip, "log/*.aof") },
		func(p *process) func() { return p.damage(func([]byte) []byte { return nil }, "log/*.aof") },
	}
	c.killed(c.nodes...)
	var undo []func()
	for i, p := range c.nodes {
		undo = append(undo, damages[i](p))
	}
	c.waits(c.nodes...)
	time.Sleep(3 * time.Second) // leases run out
	for _, p := range c.nodes {
		if p.sets() > 0 || !p.Alive() {
			t.Fatalf("files are set aside, or the node has ended, while nobody has the data: %s\n%s", p.Addr, p.Log)
		}
		if text := harness.Ask(p.Addr, "INFO", "replication"); !strings.Contains(text, "counterd_healing_waits:1\r\n") {
			t.Errorf("INFO does not say that the node waits: %s", text)
		}
	}
	whole := c.nodes[1]
	whole.Kill()
	undo[1]()
	if err := whole.start(); err != nil {
		t.Fatal(err)
	}
	c.healthy(time.Minute)
	last("1")
	for i, p := range c.nodes { // a missing segment may come back by its frames alone
		if set := p.sets() > 0; set && p == whole || !set && i == 0 {
			t.Errorf("%s: files set aside: %v", p.Addr, set)
		}
	}
	if err := c.alike(time.Minute); err != nil {
		t.Error(err)
	}

	// A primary alone.
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	first := c.primary(m, m.Shards[0])
	c.killed(first)
	damages[0](first)
	if err := first.start(); err != nil {
		t.Fatal(err)
	}
	c.healthy(time.Minute)
	last("1")
}

// TestClusterOnlyInSync: the only node in sync of a shard has a damaged file. It refuses its start, and nothing is set aside: put
// back, the file makes it whole.
func TestClusterOnlyInSync(t *testing.T) {
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 1, timeout: 2 * time.Second, fsync: "everysec"})
	if !ok {
		return
	}
	c.fill(5000)
	only := c.nodes[0]
	c.killed(only)
	back := only.damage(func([]byte) []byte { return []byte{} }, "HISTORY", "HISTORY.copy")
	if err := only.launch(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-only.Exited:
	case <-time.After(time.Minute):
		t.Error("it starts with damaged files")
	}
	if only.sets() != 0 || !strings.Contains(only.Log.String(), "only one of its shard in sync") {
		t.Errorf("files were set aside\n%s", only.Log)
	}
	back()
	if err := only.start(); err != nil {
		t.Fatal(err)
	}
	c.healthy(time.Minute)
}
