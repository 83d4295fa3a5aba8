// Scenario: commands for other shards fail, and clients of the forward port get errors that mean something to them.

package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// hurry makes the links of all nodes wait for another node no longer than if nodes were given up after d.
func (k *testCluster) hurry(d time.Duration) {
	for _, s := range k.srv {
		s.config.Hold(func(c *config.Config) { c.Cluster.NodeTimeout = int(d.Milliseconds()) })
	}
	k.stand()
}

// mute is a node that takes links and answers nothing that they ask. It ends the connection on which it is asked for FLUSHALL.
func mute(t testing.TB) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				r := bufio.NewReader(conn)
				if _, err := resptest.Read(r, resptest.Any); err == nil {
					_, _ = conn.Write([]byte("+OK\r\n"))
				}
				for asked := ""; !strings.Contains(asked, "FLUSHALL"); {
					v, err := resptest.Read(r, resptest.Any)
					if err != nil {
						return
					}
					asked = v.Raw
				}
				conn.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// provokeForward: commands for other shards.
func provokeForward(p provoker) {
	k := serveForward(p.T, 2, nil)
	k.nodes[1].Port = mute(p.T)
	k.hurry(100 * time.Millisecond)
	s, w := k.srv[0], k.forward(0, 2)
	here, there := fmt.Sprint(k.mid(0, 0)), fmt.Sprint(k.mid(1, 0))
	p.refused(s, w, "GET "+there+".cntcm", "CLUSTERDOWN shard 2 (127.0.0.1:")
	p.refused(s, w, "COUNTER.MGET weibo "+here+" "+there, "CLUSTERDOWN shard 2 (127.0.0.1:")
	p.refused(s, w, "MSET "+here+".cntcm 1 "+there+".cntcm 1", "CROSSSLOT Keys in request don't hash to the same slot")
	p.refused(s, w, "COUNTER.MSET weibo "+here+" 1 1 "+there+" 1 1", scatter.ErrRowsApart)
	if class := p.heard(w.do("INCR "+there+".cntcm").String(), "UNCERTAIN the change may have been made: shard 2 (127.0.0.1:"); class != errclass.InDoubt {
		p.Errorf("got class %v", class)
	}
	for _, c := range []string{"WATCH " + there + ".cntcm", "CLIENT TRACKING ON", "WAIT 1 1", "MEMORY USAGE " + there, "COUNTER.DEMOTE weibo " + there} {
		p.refused(s, w, c, "ERR ")
	}
	p.refused(s, w, "CLUSTER SLOTS", "ERR This instance has cluster support disabled")
	for _, c := range [][3]string{{"PING", "EXECABORT Transaction discarded because of: a transaction on the forward port accepts commands on posts only, not PING", "INCR " + here + ".cntcm"},
		{"INCR " + here + ".cntcm", "CROSSSLOT Keys in request", "INCR " + there + ".cntcm"}} {
		w.want("MULTI", "+OK")
		w.want(c[0], "+QUEUED")
		w.want(c[2], "+QUEUED")
		p.refused(s, w, "EXEC", c[1])
	}
	p.refused(s, w, "COUNTER.FIND weibo OFFSET 1", "ERR OFFSET is not supported in a cluster: use CURSOR")
	link := k.dial(0, 2)
	link.want("COUNTER.LINK 1 x", "+OK")
	p.refused(s, link, "COUNTER.LINK OWNING 0", "TRYAGAIN The shard no longer owns these posts")
	p.heard(link.do("COUNTER.LINK STILL 0").String(), "UNCERTAIN groups of the shard moved meanwhile")
	link.want("COUNTER.UPDATE weibo WHERE comment > 99999 DEL IDMP moved 1", ":0")
	p.heard(link.do("COUNTER.UPDATE weibo WHERE comment > 99998 DEL IDMP moved 1").String(), "IDMPEXPIRED the number was used for posts of other groups of hash slots, which have moved since, or for another command: the change may have been made in a part")
	for seq := range 130 {
		link.do(fmt.Sprintf("COUNTER.UPDATE weibo WHERE comment > 99999 DEL IDMP moved %d", seq+2))
	}
	p.heard(link.do("COUNTER.UPDATE weibo WHERE comment > 99999 DEL IDMP moved 1").String(), "IDMPEXPIRED the number was used long ago, and it is not known any more for posts of which groups of hash slots: the change may have been made in a part")
	p.refused(s, w, "COUNTER.UPDATE weibo INCR comment 1 LIMIT 9", "CROSSSLOT COUNTER.UPDATE with LIMIT")
	p.refused(s, w, "COUNTER.UPDATED weibo INCR comment 1", "ERR COUNTER.UPDATED without a number")
	p.refused(s, w, "IDMP FENCE p", "ERR IDMP FENCE is not supported on the forward port")
	p.heard(w.do("FLUSHALL").String(), "UNCERTAIN the change may have been made in a part: shard 2 (127.0.0.1:")
	whole := k.shards[0].Groups
	k.shards[0].Groups.Remove(0)
	k.stand()
	p.refused(s, w, "COUNTER.SUM weibo comment", "CLUSTERDOWN some hash slots have no owner")
	k.shards[0].Groups = whole
	k.stand()
	part := serveForward(p.T, 2, nil)
	part.change = func(i int, st *cluster.Standing) {
		if i == 1 {
			st.Writes = "CLUSTERDOWN The primary is changing"
		}
	}
	part.hurry(100 * time.Millisecond)
	p.heard(part.forward(0, 2).do("FLUSHALL").String(), "UNCERTAIN the change was made in a part: shard 2 (127.0.0.1:")
	p.refused(s, w, "COUNTER.LINK 99 x", "ERR COUNTER.LINK: got format 99, want 1")
	p.refused(wireServe(p.T, nil), wireDial(p.T, wireServe(p.T, nil), 2), "COUNTER.LINK 1 x", "ERR This instance has cluster support disabled")
}

// TestForwardOthersErrors: an error of another node about itself reaches a client of the forward port as CLUSTERDOWN with the shard's
// name.
func TestForwardOthersErrors(t *testing.T) {
	for _, said := range []string{"READONLY You can't write against a read only replica.", "MOVED 1 127.0.0.1:1", "TRYAGAIN Some hash slots move"} {
		k := serveForward(t, 2, nil)
		k.change = func(i int, st *cluster.Standing) {
			if i == 1 {
				st.Writes = said
			}
		}
		k.hurry(100 * time.Millisecond)
		w := k.forward(0, 2)
		there := fmt.Sprint(k.mid(1, 0))
		want := "CLUSTERDOWN shard 2 (127.0.0.1:"
		if strings.HasPrefix(said, "TRYAGAIN") {
			want = said
		}
		for _, c := range []string{"INCR " + there + ".cntcm", "SET " + there + ".cntcm 1", "INCRBY " + there + ".cntcm 1 IDMP p 1"} {
			if got := w.do(c).String(); !strings.Contains(got, want) || !strings.Contains(got, said) {
				t.Errorf("%s, and the node says %q: got %q", c, said, got)
			}
		}
		for _, got := range w.pipeline("INCR "+there+".cntcm", "INCR "+there+".cntcm") { // a series
			if !strings.Contains(got, want) || !strings.Contains(got, said) {
				t.Errorf("two in one pipeline, and the node says %q: got %q", said, got)
			}
		}
	}
}

// TestForwardAtReplica: a replica passes nothing on for a client of its forward port, as the change has a number and its key names no post. The error does not speak of a
// replica to a client that knows of none.
func TestForwardAtReplica(t *testing.T) {
	k := startCluster(t, func(c *config.Config) { c.Cluster.ForwardPort = freeport.Take(t) }, 2)
	w := k.forward(1, 2)
	w.want("CLIENT IDMP p 1", "+OK")
	w.want("INCR nosuch", "-CLUSTERDOWN The node is a replica")
}

// TestForwardExecPast: the shard of a node accepts no changes. A transaction on posts of another shard passes, as an INCR does, and one on the node's own posts is refused.
func TestForwardExecPast(t *testing.T) {
	k := serveForward(t, 2, nil)
	k.change = func(i int, st *cluster.Standing) {
		if i == 0 {
			st.Writes = "CLUSTERDOWN as the test says"
		}
	}
	k.hurry(100 * time.Millisecond)
	w := k.forward(0, 2)
	exec := func(shard int) string {
		w.want("MULTI", "+OK")
		w.want(fmt.Sprintf("INCR %d.cntcm", k.mid(shard, 0)), "+QUEUED")
		return w.do("EXEC").String()
	}
	if got := exec(1); got != "[:1]" {
		t.Errorf("posts of the other shard: got %s, want [:1]", got)
	}
	if got := exec(0); !strings.HasPrefix(got, "-CLUSTERDOWN ") {
		t.Errorf("posts of the node itself: got %s, want CLUSTERDOWN", got)
	}
	k.change = nil
	k.hurry(time.Second)
	if got := exec(0); got != "[:1]" {
		t.Errorf("the node's shard accepts changes again: got %s, want [:1]", got)
	}
}
