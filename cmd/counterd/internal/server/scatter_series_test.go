// Scenario: some commands of a pipeline on a forward port are refused or in doubt, and each has the reply that is its own.

package server

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// TestForwardSeriesMoved: a shard refuses one post of a pipeline of INCRs, because its group has moved away. The change is made by its new owner, and
// the others are made once. The refused commands are a part of the series, or stand between two.
func TestForwardSeriesMoved(t *testing.T) {
	for i := range 6 {
		to, command := i/2, []string{"INCR %d.cntcm", "INCRBY %d.cntcm 1"}[i%2]
		t.Run(fmt.Sprintf("to=%d,%.6s", to, command), func(t *testing.T) {
			k := serveForward(t, 3, nil)
			c := k.forward(0, 2)
			moves := k.mid(1, 0)
			stays := []uint64{k.mid(1, 1), k.mid(0, 1), k.mid(2, 1)} // the first one comes alone
			var pipeline, want []string
			for n := range 4 {
				for _, mid := range stays {
					pipeline, want = append(pipeline, fmt.Sprintf("INCR %d.cntcm", mid)), append(want, fmt.Sprint(":", n+1))
				}
				pipeline, want = append(pipeline, fmt.Sprintf(command, moves)), append(want, fmt.Sprint(":", n+1))
			}
			pipeline, want = append(pipeline, fmt.Sprintf("DECR %d.cntrn", moves)), append(want, "-ERR increment or decrement would overflow")
			moveBeside(t, k, c, slot.Group(moves), to, pipeline, want)
			for _, mid := range stays {
				c.want(fmt.Sprintf("GET %d.cntcm", mid), `"4"`)
			}
			c.want(fmt.Sprintf("GET %d.cntcm", moves), `"4"`)
		})
	}
}

// moveBeside takes a group from shard 1, sends a pipeline, and gives the group to a shard, which may be shard 1 again, once shard 1 has refused a command. Each
// command has the reply that is wanted.
func moveBeside(t *testing.T, k *testCluster, c *wireClient, group uint8, to int, pipeline, want []string) {
	t.Helper()
	groups := k.srv[1].Store().Groups()
	owned := groups.Owned()
	owned.Remove(group)
	groups.Own(owned)
	calls := k.srv[1].commands.Calls()
	c.sendAll(pipeline...)
	until(t, "the shard has refused it", func() bool { return k.srv[1].commands.Calls() > calls })
	k.shards[1].Groups.Remove(group)
	k.shards[to].Groups.Add(group)
	if to == 1 { // it comes back
		owned.Add(group)
		groups.Own(owned)
	}
	k.stand()
	for i, want := range want {
		if got := c.read().String(); got != want {
			t.Errorf("command %d, %s: got %s, want %s", i, pipeline[i], got, want)
		}
	}
}

// TestForwardSeriesDiskFails: the commit of this node's changes fails. They are answered by errors, and the changes of another shard by values.
func TestForwardSeriesDiskFails(t *testing.T) {
	k, disk := serveOnFaulty(t)
	c := k.forward(0, 2)
	here, there := k.mid(0, 0), k.mid(1, 0)
	c.want(fmt.Sprintf("SET %d.cntcm 5", here), "+OK")
	disk.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	var pipeline []string
	for range 4 {
		pipeline = append(pipeline, fmt.Sprintf("INCR %d.cntcm", here), fmt.Sprintf("INCR %d.cntcm", there))
	}
	for i, got := range c.pipeline(pipeline...) {
		if want := fmt.Sprint(":", i/2+1); i%2 == 1 && got != want || i%2 == 0 && !strings.HasPrefix(got, "-UNCERTAIN ") {
			t.Errorf("command %d, %s: got %s", i, pipeline[i], got)
		}
	}
	c.want("PING", "+PONG")
}

// TestForwardSeriesDead: a shard of a pipeline does not answer. Its commands are answered by errors, and the others by values.
func TestForwardSeriesDead(t *testing.T) {
	k := serveForward(t, 3, nil)
	c := k.forward(0, 3)
	k.nodes[1].Port = 1 // nobody is there
	k.stand()
	var pipeline []string
	for range 4 {
		for shard := range 3 {
			pipeline = append(pipeline, fmt.Sprintf("GET %d.cntcm", k.mid(shard, 0)))
		}
	}
	for i, got := range c.pipeline(pipeline...) {
		if i%3 == 1 && !strings.HasPrefix(got, "-CLUSTERDOWN ") || i%3 != 1 && got != "nil" {
			t.Errorf("command %d, %s: got %s", i, pipeline[i], got)
		}
	}
}

// TestForwardPagesMoved: a shard refuses one post of a pipeline of pages, because its group has moved away. The pages of the pipeline have one command for each
// shard, and each page has its own rows.
func TestForwardPagesMoved(t *testing.T) {
	for to := range 3 {
		t.Run(fmt.Sprint("to=", to), func(t *testing.T) {
			k := serveForward(t, 3, nil)
			c := k.forward(0, 2)
			var mids []uint64
			for i := range 12 {
				mids = append(mids, k.mid(i%3, i/3))
				c.want(fmt.Sprintf("SET %d.cntcm %d", mids[i], i), "+OK")
			}
			moves := mids[1]
			var pipeline, want []string
			for first := range mids {
				line, reply := "COUNTER.MGET weibo", []string{}
				for i := range 1 + first%5 {
					at := (first + i) % len(mids)
					value := fmt.Sprintf("[:%d :0]", at)
					if mids[at] == moves && to != 1 { // the test moves no posts
						value = "nil"
					}
					line, reply = fmt.Sprintf("%s %d", line, mids[at]), append(reply, value)
				}
				pipeline, want = append(pipeline, line), append(want, "["+strings.Join(reply, " ")+"]")
			}
			moveBeside(t, k, c, slot.Group(moves), to, pipeline, want)
		})
	}
}
