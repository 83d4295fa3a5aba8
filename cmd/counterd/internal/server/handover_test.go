package server

import (
	"testing"

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
	if err := n.srv.Store().Yield(); err != nil {
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
		a.dial().want("SET 1.cntcm 2", "-"+errReadOnly)
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
