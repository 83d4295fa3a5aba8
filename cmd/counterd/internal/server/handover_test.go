package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
)

// TestHandoverCutOff ends a node at each step of FAILOVER and starts it again: one of the two leads, with all changes, and the other follows it. Nobody has
// to say anything.
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
				return a.dial().do("WAIT 1 100").n == 1 && b.info("master_link_status") == "up"
			})
			b.stop() // its role is that of its directory from here on
			b.start("")
			until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").n == 1 })
			if err := a.srv.node.NoteHandover(b.address()); err != nil {
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
			until(t, "the note is gone", func() bool { to, err := a.srv.node.Handover(); return err == nil && to == (repl.Address{}) })
			for _, n := range nodes {
				if cuts := n.info("counterd_diverged_cuts"); cuts != "0" {
					t.Errorf("changes were taken back %s times", cuts)
				}
			}
		})
	}
}

func (n *replNode) address() repl.Address { return repl.Address{Host: "127.0.0.1", Port: n.port} }

// yield makes a node give its role up, as FAILOVER does.
func yield(n *replNode) {
	if err := n.srv.Store().Replication().Yield(); err != nil {
		n.t.Fatal(err)
	}
}

// TestHandoverToNobody: the node that the role was being handed to does not come back. REPLICAOF ends the wait, whatever it says.
func TestHandoverToNobody(t *testing.T) {
	a := newReplNode(t).start("")
	a.dial().want("SET 1.cntcm 1", "+OK")
	gone := newReplNode(t)
	for range 2 {
		if err := a.srv.node.NoteHandover(gone.address()); err != nil {
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

// TestFailoverCeded: a replica that was told to lead and has gone leaves a node that does what it is told, and tells the replica to lead no more.
func TestFailoverCeded(t *testing.T) {
	a := newReplNode(t).start("")
	c := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").n == 1 })
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
		until(t, "the replica was told", func() bool { return told.Load() > before+1 && a.srv.handover.isStuck() })
		if command != "REPLICAOF NO ONE" {
			c.dial().want("REPLICAOF NO ONE", "+OK") // as Sentinel does
		}
		a.dial().want(command, "+OK")
		if a.info("master_failover_state") != phaseNone {
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
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").n == 1 })
	if err := a.srv.Store().Replication().SetMonitored(); err != nil {
		t.Fatal(err)
	}
	if err := a.srv.node.NoteHandover(b.address()); err != nil {
		t.Fatal(err)
	}
	yield(a)
	a.stop()
	a.start("")
	until(t, "it knows what it would do", func() bool {
		_, err := a.srv.resumeStep(t.Context(), b.address())
		return err != nil && strings.Contains(err.Error(), "Sentinel")
	})
	if role := b.info("role"); role != "slave" {
		t.Errorf("the replica is %s", role)
	}
	b.dial().want("REPLICAOF NO ONE", "+OK") // Sentinel's word
	until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
}

// TestHandoverFeeds: a node that gave its role up goes on to feed the replica that is to lead: that one may have lost its link before it had all changes, and
// both would wait for the other.
func TestHandoverFeeds(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
	b.stop()
	a.dial().want("SET 1.cntcm 1", "+OK")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !a.srv.handover.begin(cancel) {
		t.Fatal("there is a handover")
	}
	a.srv.handover.set(phaseTelling)
	yield(a)
	b.start("")
	if who, ok := a.srv.caughtUp(ctx, b.address()); !ok || who != b.address() {
		t.Errorf("got %v, %v", who, ok)
	}
	same(t, a, b)
	a.srv.handover.end()
}
