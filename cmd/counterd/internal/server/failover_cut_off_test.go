// Scenario: a node ends, or its link is cut, at each step of a FAILOVER.

package server

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/persist/vfs"
)

// TestHandoverCutOff ends a node at each step of FAILOVER and starts it again: one of the two leads, with all changes,
// and the other follows it. Nobody has to say anything.
func TestHandoverCutOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		until  func(a, b *replNode) // what a does before it ends
		leader int
	}{
		{"noted", func(a, b *replNode) {}, 0},
		{"yielded", func(a, b *replNode) { yield(a) }, 1},
		{"told", func(a, b *replNode) { yield(a); b.dial().want("REPLICAOF NO ONE", "+OK") }, 1},
		{"told, and it went on", func(a, b *replNode) {
			yield(a)
			b.dial().want("REPLICAOF NO ONE", "+OK")
			b.dial().want("SET 2.cntcm 2", "+OK")
		}, 1},
		{"followed", func(a, b *replNode) {
			yield(a)
			b.dial().want("REPLICAOF NO ONE", "+OK")
			a.dial().want("REPLICAOF "+b.addr(), "+OK")
		}, 1},
		{"yielded, and the replica knows no primary", func(a, b *replNode) {
			yield(a)
			b.stop()
			if err := vfs.RemoveTwice(vfs.OS(), filepath.Join(b.dir, "PRIMARY")); err != nil {
				t.Fatal(err)
			}
			b.start("")
		}, 1},
		{"yielded, and the replica was behind", func(a, b *replNode) {
			b.stop()
			a.dial().want("SET 2.cntcm 2", "+OK")
			yield(a)
			b.start("")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newReplNode(t).start("")
			b := newReplNode(t).start(a.addr())
			a.dial().want("SET 1.cntcm 1", "+OK")
			until(t, "the replica follows", func() bool {
				return a.dial().do("WAIT 1 100").N == 1 && b.info("master_link_status") == "up"
			})
			b.stop() // its role is that of its directory from here on
			b.start("")
			until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
			if err := a.srv.role.Replication().NoteHandover(b.address(), false); err != nil {
				t.Fatal(err)
			}
			c.until(a, b)
			a.stop()
			a.start("")
			nodes := []*replNode{a, b}
			leader, other := nodes[c.leader], nodes[1-c.leader]
			until(t, "one leads and the other follows", func() bool {
				return leader.info("role") == "master" && other.info("role") == "slave" && other.info("master_link_status") == "up"
			})
			leader.dial().want("INCR 1.cntcm", ":2")
			same(t, leader, other)
			until(t, "the note is gone", func() bool {
				to, _, err := a.srv.role.Replication().Handover()
				return err == nil && to == (repl.Address{})
			})
			for _, n := range nodes {
				if cuts := n.info("counterd_diverged_cuts"); cuts != "0" {
					t.Errorf("changes were taken back %s times", cuts)
				}
			}
		})
	}
}

// stuck tells whether a replica was told to lead and does not answer.
func stuck(n *replNode) bool {
	_, stuck := n.srv.role.Failover()
	return stuck
}

func (n *replNode) address() repl.Address { return repl.Address{Host: "127.0.0.1", Port: n.port} }

// yield makes a node give its role up, as FAILOVER does.
func yield(n *replNode) {
	if err := n.srv.Store().Replication().Yield(); err != nil {
		n.t.Fatal(err)
	}
}

// TestHandoverToNobody: the node that the role was being handed to does not come back. REPLICAOF ends the wait,
// whatever it says.
func TestHandoverToNobody(t *testing.T) {
	a := newReplNode(t).start("")
	a.dial().want("SET 1.cntcm 1", "+OK")
	gone := newReplNode(t)
	for range 2 {
		if err := a.srv.role.Replication().NoteHandover(gone.address(), false); err != nil {
			t.Fatal(err)
		}
		yield(a)
		a.stop()
		a.start("")
		a.dial().want("SET 1.cntcm 2", "-"+items.ErrReadOnly)
		if host := a.info("master_host"); host != "127.0.0.1" {
			t.Errorf("master_host:%s", host)
		}
		a.dial().want("REPLICAOF NO ONE", "+OK")
		a.dial().want("SET 1.cntcm 2", "+OK")
		a.stop()
		a.start("")
		a.dial().want("SET 1.cntcm 3", "+OK")
	}
}

// TestFailoverAborted: when ABORT is answered there is no failover: a second one is told so, and the next failover may
// begin.
func TestFailoverAborted(t *testing.T) {
	a := newReplNode(t).start("")
	a.dial().want("SET 1.cntcm 1", "+OK")
	deafReplica(t, a, 1)
	c := a.dial()
	for range 200 {
		c.want("FAILOVER", "+OK")
		c.want("FAILOVER ABORT", "+OK")
		c.want("FAILOVER ABORT", "-ERR No failover in progress.")
	}
	c.want("MULTI", "+OK") // nothing can end while a transaction holds the store
	c.want("FAILOVER ABORT", "+QUEUED")
	c.want("EXEC", "[-ERR No failover in progress.]")
	c.want("INCR 1.cntcm", ":2")
}

// TestHandoverAstray: the node that the role was being handed to follows a third one that is not there, or this one by
// a name that it does not know for its own. The log says so, as somebody has to.
func TestHandoverAstray(t *testing.T) {
	a := newReplNode(t).start("")
	other := listenAs(t, 0)
	if err := a.srv.role.Replication().NoteHandover(repl.Address{Host: "127.0.0.1", Port: other.port()}, false); err != nil {
		t.Fatal(err)
	}
	yield(a)
	a.stop()
	a.start("")
	other.roles <- follower(1, repl.LinkConnect, 1<<40)
	until(t, "the log says so", func() bool { return a.said("it follows 127.0.0.1:1") })
	if n := other.told.Load(); n != 0 {
		t.Errorf("it was told to lead %d times", n)
	}
}

// TestFailoverCeded: a replica that was told to lead and has gone leaves a node that does what it is told, and tells
// the replica to lead no more.
func TestFailoverCeded(t *testing.T) {
	a := newReplNode(t).start("")
	c := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	var told atomic.Int64
	go func() {
		for {
			conn, err := nobody.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			told.Add(1)
			conn.Close()
		}
	}()
	port := nobody.Addr().(*net.TCPAddr).Port
	deafReplica(t, a, port)
	for _, command := range []string{"REPLICAOF " + c.addr(), "REPLICAOF NO ONE"} {
		before := told.Load()
		a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", port), "+OK")
		until(t, "the replica was told", func() bool { return told.Load() > before+1 && stuck(a) })
		if command != "REPLICAOF NO ONE" {
			c.dial().want("REPLICAOF NO ONE", "+OK") // as Sentinel does
		}
		a.dial().want(command, "+OK")
		if a.info("master_failover_state") != role.PhaseNone {
			t.Error("the failover goes on")
		}
		last := told.Load()
		if command == "REPLICAOF NO ONE" {
			a.dial().want("INCR 1.cntcm", ":3")
			break
		}
		until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
		c.dial().want("INCR 1.cntcm", ":2")
		same(t, c, a)
		if told.Load() != last {
			t.Error("the replica was told again")
		}
		a.dial().want("REPLICAOF NO ONE", "+OK")
		deafReplica(t, a, port)
	}
}

// TestHandoverWatched: where Sentinel watches, it says who leads after a kill: it may have named a third node.
func TestHandoverWatched(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	if err := a.srv.Store().Replication().SetMonitored(); err != nil {
		t.Fatal(err)
	}
	if err := a.srv.role.Replication().NoteHandover(b.address(), false); err != nil {
		t.Fatal(err)
	}
	yield(a)
	a.stop()
	a.start("")
	until(t, "it knows what it would do", func() bool { return a.said("which is to say who leads") })
	if role := b.info("role"); role != "slave" {
		t.Errorf("the replica is %s", role)
	}
	b.dial().want("REPLICAOF NO ONE", "+OK") // Sentinel's word
	until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
}

// TestHandoverFeeds: a node that gave its role up goes on to feed the replica that is to lead: that one may have lost
// its link before it had all changes, and both would wait for the other.
func TestHandoverFeeds(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
	b.stop()
	a.dial().want("SET 1.cntcm 1", "+OK")
	held := listenAs(t, 0)
	deafReplica(t, a, held.port())
	a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", held.port()), "+OK")
	until(t, "the role was given up", func() bool { return held.told.Load() > 0 && stuck(a) })
	b.start("")
	same(t, a, b)
	b.dial().want("GET 1.cntcm", `"1"`)
	a.dial().want("FAILOVER ABORT", "+OK")
	a.dial().want("INCR 1.cntcm", ":2")
	same(t, a, b)
}

// toldNobody listens where a replica would, and takes orders that it never answers. told counts those to lead; roles
// answers ROLE.
type toldNobody struct {
	net.Listener
	told  atomic.Int64
	roles chan string

	history atomic.Value // a string: the id that INFO tells
}

// listenAs listens on a port of this host; 0 takes a free one.
func listenAs(t *testing.T, port int) *toldNobody {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	n := &toldNobody{Listener: l, roles: make(chan string)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(conn)
		}
	}()
	return n
}

func (n *toldNobody) port() int { return n.Addr().(*net.TCPAddr).Port }

func (n *toldNobody) serve(conn net.Conn) {
	defer conn.Close()
	var got []byte
	buf := make([]byte, 200)
	for {
		k, err := conn.Read(buf)
		if got = append(got, buf[:k]...); err != nil {
			return
		}
		switch text := string(got); {
		case strings.Contains(text, "REPLICAOF"):
			n.told.Add(1)
			return
		case strings.Contains(text, "ROLE"):
			role := <-n.roles
			history, _ := n.history.Load().(string)
			info := "# Replication\r\nmaster_replid:" + history + "\r\n"
			_, _ = fmt.Fprintf(conn, "+PONG\r\n%s$%d\r\n%s\r\n", role, len(info), info)
			return
		}
	}
}

// follower is a replica's answer to ROLE.
func follower(of int, state repl.LinkState, offset uint64) string {
	return fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$%d\r\n%s\r\n:%d\r\n", of, len(state), state, offset)
}

// TestHandoverForced: a replica that was told to lead by force, though it lacks changes, may do so at any moment: a
// node that comes back does not lead beside it.
func TestHandoverForced(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	b.stop()
	a.dial().want("SET 2.cntcm 2", "+OK")
	held := listenAs(t, b.port)
	deafReplica(t, a, b.port)
	a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", b.port), "+OK")
	until(t, "the replica was told", func() bool { return held.told.Load() > 0 && stuck(a) })
	a.stop()
	held.Close()
	b.start("")
	a.start("")
	until(t, "the replica leads and the other follows", func() bool {
		return b.info("role") == "master" && a.info("role") == "slave" && a.info("master_link_status") == "up"
	})
	b.dial().want("INCR 1.cntcm", ":2")
	b.dial().want("GET 2.cntcm", "nil")
	same(t, b, a)
	if cuts := a.info("counterd_diverged_cuts"); cuts != "1" {
		t.Errorf("changes were taken back %s times, want once", cuts)
	}
}

// TestHandoverOverruled: what somebody says while a node looks how to go on with a handover holds: the node that it was
// handing over to is told nothing any more.
func TestHandoverOverruled(t *testing.T) {
	for _, command := range []string{"REPLICAOF NO ONE", "FAILOVER ABORT", "REPLICAOF 127.0.0.1 1"} {
		a := newReplNode(t).start("")
		a.dial().want("SET 1.cntcm 1", "+OK")
		other := listenAs(t, 0)
		if err := a.srv.role.Replication().NoteHandover(repl.Address{Host: "127.0.0.1", Port: other.port()}, false); err != nil {
			t.Fatal(err)
		}
		yield(a)
		a.stop()
		a.start("")
		other.roles <- follower(a.port, repl.LinkConnect, 0) // it lacks changes: the node leads again
		until(t, "it leads", func() bool { return a.info("role") == "master" && a.info("master_failover_state") == role.PhaseNone })
		if err := a.srv.role.Replication().NoteHandover(repl.Address{Host: "127.0.0.1", Port: other.port()}, false); err != nil {
			t.Fatal(err)
		}
		yield(a)
		a.stop()
		a.start("")
		if state := a.info("master_failover_state"); state != role.PhaseTelling {
			t.Errorf("master_failover_state:%s, want %s", state, role.PhaseTelling)
		}
		a.dial().want("FAILOVER", "-"+role.ErrFailingOver)
		asked := a.srv
		go func() { // the answer comes when it is too late
			for phase := ""; phase != role.PhaseNone; phase, _ = asked.role.Failover() {
				time.Sleep(time.Millisecond)
			}
			other.roles <- follower(a.port, repl.LinkConnect, 1<<40)
		}()
		a.dial().want(command, "+OK")
		until(t, "the handover has ended", func() bool { return a.info("master_failover_state") == role.PhaseNone })
		want := "master"
		if strings.HasPrefix(command, "REPLICAOF 127") {
			want = "slave"
		}
		if role := a.info("role"); role != want {
			t.Errorf("%s: the node is a %s, want %s", command, role, want)
		}
		if to, _, err := a.srv.role.Replication().Handover(); err != nil || to != (repl.Address{}) {
			t.Errorf("%s: a handover to %v is noted, %v", command, to, err)
		}
		a.stop()
		if n := other.told.Load(); n != 0 {
			t.Errorf("%s: the other node was told to lead %d times", command, n)
		}
	}
}

// TestHandoverOnward: a node that goes on with a handover finds the other one, which has led since, in the middle of a
// handover to a third: it is not told to lead, as the third may do so at any moment.
func TestHandoverOnward(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	if err := a.srv.role.Replication().NoteHandover(b.address(), false); err != nil {
		t.Fatal(err)
	}
	yield(a)
	a.stop()
	b.dial().want("REPLICAOF NO ONE", "+OK")
	c := listenAs(t, 0)
	deafReplica(t, b, c.port())
	b.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", c.port()), "+OK")
	until(t, "the third was told", func() bool { return c.told.Load() > 0 && stuck(b) })
	a.start("")
	until(t, "it was asked for its role", func() bool {
		calls := 0
		_, stats, _ := strings.Cut(b.dial().do("INFO commandstats").String(), "cmdstat_role:calls=")
		_, _ = fmt.Sscanf(stats, "%d", &calls)
		return calls >= 3 || b.info("role") == "master"
	})
	if is, state := b.info("role"), b.info("master_failover_state"); is != "slave" || state != role.PhaseTelling {
		t.Errorf("role:%s, master_failover_state:%s, want a replica that is handing its role over", is, state)
	}
	b.dial().want("FAILOVER ABORT", "+OK")
	until(t, "one leads and the other follows", func() bool {
		return b.info("role") == "master" && a.info("role") == "slave" && a.info("master_link_status") == "up"
	})
}

// TestFailoverTakenElsewhere: a replica that was told to lead and did not answer comes back as the replica of a third
// node, which leads by then. It is not told again, and the old primary follows that node.
func TestFailoverTakenElsewhere(t *testing.T) {
	a := newReplNode(t).start("")
	c := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	b := listenAs(t, 0)
	deaf := deafReplica(t, a, b.port())
	a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", b.port()), "+OK")
	until(t, "the replica was told", func() bool { return b.told.Load() == 1 })
	c.dial().want("REPLICAOF NO ONE", "+OK")
	deaf.conn.Close()
	until(t, "the replica's link is down", func() bool { return a.info("connected_slaves") == "0" })
	b.roles <- follower(c.port, repl.LinkConnect, 1<<40)
	b.roles <- follower(c.port, repl.LinkConnected, 1<<40)
	until(t, "it follows the third node", func() bool {
		return a.info("role") == "slave" && a.info("master_port") == fmt.Sprint(c.port) && a.info("master_link_status") == "up"
	})
	c.dial().want("INCR 1.cntcm", ":2")
	same(t, c, a)
	if n := b.told.Load(); n != 1 {
		t.Errorf("the replica was told to lead %d times", n)
	}
}
