// Scenario: the disk of a node fails while commands on posts of several shards are on their way through it.

package server

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/vfs"
)

// serveOnFaulty starts two shards of one node each, with forward ports. Node 0 syncs each change to a disk whose faults the
// test makes.
func serveOnFaulty(t *testing.T) (*testCluster, *vfs.Faulty) {
	t.Helper()
	disk := vfs.NewFaulty(vfs.OS())
	k := startClusterIn(t, func(i int, o *counter.Options) string {
		if i != 0 {
			return ""
		}
		o.FS, o.SnapshotGrowth, o.AppendFsync = disk, -1, counter.SyncAlways
		return t.TempDir()
	}, func(c *config.Config) { c.Cluster.ForwardPort, c.AppendFsync = freeport.Take(t), "always" }, 1, 1)
	t.Cleanup(disk.Clear)
	return k, disk
}

// pipeline sends commands in one write, and returns the reply to each.
func (c *wireClient) pipeline(commands ...string) (replies []string) {
	c.t.Helper()
	c.sendAll(commands...)
	for range commands {
		replies = append(replies, c.read().String())
	}
	return replies
}

// sendAll sends commands in one write.
func (c *wireClient) sendAll(commands ...string) {
	c.t.Helper()
	var b []byte
	for _, command := range commands {
		b = resptest.Append(b, strings.Fields(command)...)
	}
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// TestForwardDiskFails: a change of this node's waits for its commit, and a command behind it, which its shard refused, is
// executed here, because this node has become the owner. The commit fails. Both are answered by errors: neither is durable.
func TestForwardDiskFails(t *testing.T) {
	k, disk := serveOnFaulty(t)
	c := k.forward(0, 2)
	here, moves := k.mid(0, 0), k.mid(1, 0)
	c.want(fmt.Sprintf("SET %d.cntcm 5", here), "+OK")
	group := slot.Group(moves)
	owned := k.srv[1].Store().Groups().Owned()
	owned.Remove(group)
	k.srv[1].Store().Groups().Own(owned)
	calls := k.srv[1].commands.Calls()
	disk.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	c.sendAll(fmt.Sprintf("INCR %d.cntcm", here), fmt.Sprintf("INCR %d.cntcm", moves), fmt.Sprintf("GET %d.cntcm", here))
	until(t, "the shard has refused it", func() bool { return k.srv[1].commands.Calls() > calls })
	k.shards[1].Groups.Remove(group)
	k.shards[0].Groups.Add(group)
	k.stand()
	for _, what := range []string{"the change of this node", "the change that moved here"} {
		if got := c.read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") && (what == "the change of this node" || !strings.HasPrefix(got, "-MISCONF ")) {
			t.Errorf("%s: got %s, want an error", what, got)
		}
	}
	if got := c.read().String(); got != `"5"` && !strings.HasPrefix(got, "-UNCERTAIN ") {
		t.Errorf("GET: got %s", got)
	}
	c.want("PING", "+PONG")
}

// TestTrackedDiskFails: an invalidation stands between replies whose commit fails, and other shards have a part in the turn.
// Each command is answered once.
func TestTrackedDiskFails(t *testing.T) {
	k, disk := serveOnFaulty(t)
	c := k.dial(0, 3)
	a, b, there := k.mid(0, 0), k.mid(0, 1), k.mid(1, 0)
	c.want(fmt.Sprintf("SET {%d}.cntcm 5", a), "+OK")
	c.want("CLIENT TRACKING ON", "+OK")
	c.want(fmt.Sprintf("GET {%d}.cntcm", a), `"5"`)
	disk.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	for i, got := range c.pipeline(fmt.Sprintf("INCR {%d}.cntcm", a), fmt.Sprintf("GET {%d}.cntcm", b), fmt.Sprintf("COUNTER.MGET weibo %d %d", a, there)) {
		if got[0] == '>' {
			t.Errorf("reply %d: got the push %s", i, got)
		}
		if i == 0 && !strings.HasPrefix(got, "-UNCERTAIN ") {
			t.Errorf("INCR: got %s, want UNCERTAIN", got)
		}
	}
	disk.Clear()
	c.sendAll("PING")
	got := c.read().String()
	for got[0] == '>' { // all keys are invalidated, as the client did not see which
		got = c.read().String()
	}
	if got != "+PONG" {
		t.Errorf("PING: got %s: a command was answered twice", got)
	}
}
