// Scenario: what a node writes down of a FAILOVER survives its restart.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/persist/vfs"
)

// TestHandoverNotes: a node that was told its role since does not go on with a handover, whatever a crash left of the
// note; one whose configuration names the node that it was handing over to does.
func TestHandoverNotes(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	c := newReplNode(t)
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	note := func() {
		t.Helper()
		if err := a.srv.role.Replication().NoteHandover(b.address(), false); err != nil {
			t.Fatal(err)
		}
		yield(a)
	}
	note()
	a.dial().want("REPLICAOF "+c.addr(), "+OK")
	if err := os.WriteFile(filepath.Join(a.dir, "HANDOVER"), fmt.Appendf(nil, "%d 127.0.0.1\n", b.port), 0o600); err != nil { // as if it had ended before it was removed
		t.Fatal(err)
	}
	a.stop()
	a.start("")
	if to, _, err := a.srv.role.Replication().Handover(); err != nil || to != (repl.Address{}) {
		t.Errorf("a handover to %v is noted, %v", to, err)
	}
	if port := a.info("master_port"); port != fmt.Sprint(c.port) {
		t.Errorf("it follows %s, want %d", port, c.port)
	}
	a.dial().want("REPLICAOF NO ONE", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	note()
	a.stop()
	a.start(b.addr()) // as its configuration was when b led
	until(t, "one leads and the other follows", func() bool {
		return b.info("role") == "master" && a.info("role") == "slave" && a.info("master_link_status") == "up"
	})
}

// unwritable keeps a node from noting its primary, as a full disk does, until the function that it returns is called.
func unwritable(t *testing.T, n *replNode) (writable func()) {
	t.Helper()
	temp := filepath.Join(n.dir, "PRIMARY"+vfs.TempSuffix)
	if err := os.MkdirAll(filepath.Join(temp, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		// In one step: as soon as the folder is empty, the node removes it and writes a file in its place.
		if err := os.Rename(temp, filepath.Join(t.TempDir(), "removed")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHandoverNoted: a node that has handed its role over and cannot note whom it follows now, as its disk is full,
// does so when the disk is well. Nobody has to tell it.
func TestHandoverNoted(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	writable := unwritable(t, a)
	a.dial().want("FAILOVER", "+OK")
	until(t, "the replica leads", func() bool { return b.info("role") == "master" })
	until(t, "the old primary cannot note it", func() bool { return a.said("not empty") })
	b.dial().want("INCR 1.cntcm", ":2")
	a.dial().want("SET 1.cntcm 3", "-"+items.ErrReadOnly)
	writable()
	until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
	same(t, b, a)
	until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })
	if to, _, err := a.srv.role.Replication().Handover(); err != nil || to != (repl.Address{}) {
		t.Errorf("a handover to %v is noted, %v", to, err)
	}
	if of, err := a.srv.role.Replication().Remembered(); err != nil || of != b.address() {
		t.Errorf("it remembers %v, %v", of, err)
	}
}

// TestHandoverElsewhereNoted: a node that goes on with a handover finds the other one a replica of a third, and follows
// that one as soon as it can note it.
func TestHandoverElsewhereNoted(t *testing.T) {
	a := newReplNode(t).start("")
	c := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 1", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	other := listenAs(t, 0)
	if err := a.srv.role.Replication().NoteHandover(repl.Address{Host: "127.0.0.1", Port: other.port()}, false); err != nil {
		t.Fatal(err)
	}
	yield(a)
	a.stop()
	c.dial().want("REPLICAOF NO ONE", "+OK")
	a.start("")
	until(t, "it follows the other", func() bool { return a.info("master_port") == fmt.Sprint(other.port()) })
	note := filepath.Join(a.dir, "PRIMARY")
	until(t, "it has noted that", func() bool { _, err := os.Stat(note); return err == nil })
	writable := unwritable(t, a)
	other.roles <- follower(c.port, repl.LinkConnected, 1<<40)
	until(t, "it cannot note the third", func() bool { return a.said("not empty") })
	writable()
	until(t, "it follows the third", func() bool {
		return a.info("master_port") == fmt.Sprint(c.port) && a.info("master_link_status") == "up"
	})
	same(t, c, a)
	until(t, "the note is gone", func() bool {
		to, _, err := a.srv.role.Replication().Handover()
		return err == nil && to == (repl.Address{})
	})
}

// TestStartUnnoted: a node whose configuration names a primary, and whose disk takes no note of it, takes no changes of
// its own, and follows as soon as it can.
func TestStartUnnoted(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start("")
	a.dial().want("SET 1.cntcm 1", "+OK")
	a.stop()
	note := filepath.Join(a.dir, "PRIMARY")
	if err := os.MkdirAll(filepath.Join(note, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.start(b.addr())
	a.dial().want("SET 1.cntcm 2", "-"+items.ErrReadOnly)
	if role := a.info("role"); role != "slave" {
		t.Errorf("role:%s", role)
	}
	until(t, "it says why it cannot follow", func() bool { return strings.Contains(a.info("counterd_link_error"), "it cannot be noted") })
	if err := os.RemoveAll(note); err != nil {
		t.Fatal(err)
	}
	until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
	same(t, b, a)
}

// wipe ends a node and starts it anew at the same address, as a primary with a post of its own and nothing of before.
func (n *replNode) wipe() {
	n.t.Helper()
	n.stop()
	n.dir = n.t.TempDir()
	n.start("")
	n.dial().want("SET 9.cntcm 9", "+OK")
}

// kept checks that a node has its posts and none of another, takes no changes, and leads when it is told to.
func kept(t *testing.T, a *replNode) {
	t.Helper()
	c := a.dial()
	c.want("SET 1.cntcm 5", "-"+items.ErrReadOnly)
	c.want("GET 1.cntcm", `"1"`)
	c.want("GET 9.cntcm", "nil")
	c.want("REPLICAOF NO ONE", "+OK")
	c.want("INCR 1.cntcm", ":2")
	if to, _, err := a.srv.role.Replication().Handover(); err != nil || to != (repl.Address{}) {
		t.Errorf("a handover to %v is noted, %v", to, err)
	}
}

// TestHandoverToStranger: another node than the one that the role was being handed to is at its address by now, with
// another history: it is neither followed nor told to lead.
func TestHandoverToStranger(t *testing.T) {
	t.Run("primary", func(t *testing.T) {
		a := newReplNode(t).start("")
		b := newReplNode(t).start(a.addr())
		a.dial().want("SET 1.cntcm 1", "+OK")
		until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
		if err := a.srv.role.Replication().NoteHandover(b.address(), false); err != nil {
			t.Fatal(err)
		}
		yield(a)
		a.stop()
		b.wipe()
		a.start("")
		until(t, "the link says why it is down", func() bool { return strings.Contains(a.info("counterd_link_error"), repl.ErrForeign.Error()) })
		until(t, "the log says that somebody has to say who leads", func() bool { return a.said("REPLICAOF NO ONE makes this node primary") })
		kept(t, a)
		a.dial().want("REPLICAOF "+b.addr(), "+OK") // who says so means it
		until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
		same(t, b, a)
	})
	t.Run("replica", func(t *testing.T) {
		a := newReplNode(t).start("")
		a.dial().want("SET 1.cntcm 1", "+OK")
		for _, of := range []int{a.port, 0} { // of this node, and of nobody
			for _, offset := range []uint64{0, 1 << 40} {
				if of == a.port && offset == 0 {
					continue // it says itself that this node leads
				}
				other := listenAs(t, 0)
				if err := a.srv.role.Replication().NoteHandover(repl.Address{Host: "127.0.0.1", Port: other.port()}, false); err != nil {
					t.Fatal(err)
				}
				yield(a)
				a.stop()
				a.forget()
				a.start("")
				answer := follower(of, repl.LinkConnect, offset)
				if of == 0 {
					answer = strings.Replace(answer, "$9\r\n127.0.0.1", "$0\r\n", 1)
				}
				other.roles <- answer
				until(t, "the log says why it waits", func() bool { return a.said(repl.ErrForeign.Error()) })
				if n := other.told.Load(); n != 0 {
					t.Errorf("it was told to lead %d times", n)
				}
				a.dial().want("SET 1.cntcm 5", "-"+items.ErrReadOnly)
				a.dial().want("REPLICAOF NO ONE", "+OK")
				a.dial().want("SET 1.cntcm 1", "+OK")
			}
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		a := newReplNode(t).start("")
		a.dial().want("SET 1.cntcm 1", "+OK")
		b := newReplNode(t)
		held := listenAs(t, b.port)
		deafReplica(t, a, b.port)
		a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d FORCE TIMEOUT 50", b.port), "+OK")
		until(t, "the replica was told", func() bool { return held.told.Load() > 0 && stuck(a) })
		held.Close()
		b.wipe()
		until(t, "the link says why it is down", func() bool { return strings.Contains(a.info("counterd_link_error"), repl.ErrForeign.Error()) })
		a.stop()
		a.start("")
		until(t, "the link says why it is down", func() bool { return strings.Contains(a.info("counterd_link_error"), repl.ErrForeign.Error()) })
		kept(t, a)
	})
}
