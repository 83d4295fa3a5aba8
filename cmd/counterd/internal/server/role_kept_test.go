// Scenario: a node keeps its role over restarts and tells Sentinel of it.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRoleKept: a node without replicaof in its configuration has the role after a restart that it had before.
func TestRoleKept(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start("")
	note := filepath.Join(b.dir, "PRIMARY")
	follows := func() bool {
		return b.info("role") == "slave" && b.info("master_port") == strconv.Itoa(a.port) && b.info("master_link_status") == "up"
	}
	restart := func() {
		t.Helper()
		b.stop()
		b.start("")
	}
	b.dial().want("REPLICAOF "+a.addr(), "+OK")
	until(t, "the replica follows", follows)
	restart()
	b.dial().want("SET 1.cntcm 1", "-"+items.ErrReadOnly)
	b.dial().want("CONFIG GET replicaof", `["replicaof" "`+a.addr()+`"]`)
	until(t, "the replica follows again", follows)
	a.dial().want("SET 1.cntcm 2", "+OK")
	until(t, "it has a change", func() bool { return b.dial().do("GET 1.cntcm").Text == "2" })

	b.dial().want("REPLICAOF NO ONE", "+OK")
	if _, err := os.Stat(note); !os.IsNotExist(err) {
		t.Errorf("a primary still has the address of the one it followed: %v", err)
	}
	restart()
	b.dial().want("SET 1.cntcm 3", "+OK")

	// A FAILOVER that a crash broke off leaves a replica that does not know whose; an old note must not count then.
	if err := os.WriteFile(note, []byte(strconv.Itoa(a.port)+" 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	restart()
	b.dial().want("SET 1.cntcm 4", "+OK")
	if err := b.srv.Store().Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	restart()
	b.dial().want("SET 1.cntcm 5", "-"+items.ErrReadOnly)
	b.dial().want("GET 1.cntcm", `"4"`)
	if host, status := b.info("master_host"), b.info("master_link_status"); host != "" || status != "down" {
		t.Errorf("it follows %q, its link is %s", host, status)
	}
	for _, text := range []string{"", "x y\n", "70000 h\n", "6379\n", "-1 h\n"} {
		for _, path := range []string{note, note + vfs.CopySuffix} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		restart()
		b.dial().want("SET 1.cntcm 5", "-"+items.ErrReadOnly)
		if host := b.info("master_host"); host != "" {
			t.Errorf("%q: it follows %q", text, host)
		}
	}
	b.dial().want("REPLICAOF "+a.addr(), "+OK")
	until(t, "the replica follows when it is told to", follows)
}

// TestRoleWhileOpening: a replica that cuts its log back, or has copied its primary's data, is a replica meanwhile.
// Sentinel would take it for promoted otherwise.
func TestRoleWhileOpening(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start("")
	b.dial().want("REPLICAOF "+a.addr(), "+OK")
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
	asked := false
	err := b.srv.role.Reopen(func(string) error {
		asked = true
		c := b.dial()
		c.want("PING", "-"+items.ErrLoading)
		c.want("SET 1.cntcm 1", "-"+items.ErrLoading)
		if got := b.info("role"); got != "slave" {
			t.Errorf("INFO: role is %s", got)
		}
		if got := b.info("master_port"); got != strconv.Itoa(a.port) {
			t.Errorf("INFO: master_port is %q", got)
		}
		if got := c.do("ROLE").String(); !strings.HasPrefix(got, `["slave" `) {
			t.Errorf("ROLE: %s", got)
		}
		return nil
	})
	if err != nil || !asked {
		t.Fatal(err)
	}
	b.dial().want("SET 1.cntcm 1", "-"+items.ErrReadOnly)
}

// TestReopenKeepsDirectory: while a node cuts its log back, or takes over its primary's data, a tool that reads its directory never
// gets the lock. It would keep the lock while it reads, and the node could not open its directory again and ended.
func TestReopenKeepsDirectory(t *testing.T) {
	a := newReplNode(t).start("")
	lock := filepath.Join(a.dir, "LOCK")
	other := filepath.Join(t.TempDir(), "LOCK") // the same file: the lock is that of another process
	if err := os.Link(lock, other); err != nil {
		t.Fatal(err)
	}
	takes := func(what string) {
		t.Helper()
		l, err := vfs.OS().Lock(other)
		if err == nil {
			t.Errorf("%s: a tool gets the lock of the directory", what)
			t.Cleanup(func() { l.Close() })
		}
	}
	a.dial().want("SET 1.cntcm 5", "+OK")
	opened := a.srv.Open
	a.srv.Open = func() (*counter.Store, error) {
		takes("before the store is opened again")
		return opened()
	}
	err := a.srv.role.Reopen(func(dir string) error {
		takes("the store is closed")
		l, err := persist.LockDir(vfs.OS(), dir)
		if err != nil {
			return err
		}
		takes("the directory is changed")
		return l.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	takes("the store is open")
	a.dial().want("INCR 1.cntcm", ":6")
	a.stop()
	if l, err := vfs.OS().Lock(other); err != nil {
		t.Errorf("the server has ended: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestElected: a replica that Sentinel promotes takes the role over from a primary that lives; one that a person splits
// off leaves it alone.
func TestElected(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start("")
	until(t, "the replica follows", func() bool {
		b.dial().do("REPLICAOF " + a.addr())
		return b.info("master_link_status") == "up"
	})
	b.dial().want("REPLICAOF NO ONE", "+OK")
	a.dial().want("SET 1.cntcm 1", "+OK")
	b.dial().want("SET 1.cntcm 2", "+OK")

	b.dial().want("REPLICAOF "+a.addr(), "+OK")
	until(t, "the replica follows again", func() bool {
		return b.info("master_link_status") == "up" && b.dial().do("GET 1.cntcm").Text == "1"
	})
	elect := func(n *replNode) {
		t.Helper()
		c := n.dial()
		c.want("CLIENT SETNAME sentinel-01234567-cmd", "+OK")
		c.want("MULTI", "+OK")
		c.want("SLAVEOF NO ONE", "+QUEUED")
		c.want("EXEC", "[+OK]")
	}
	elect(b)
	until(t, "the roles are exchanged", func() bool {
		return b.info("role") == "master" && a.info("role") == "slave" && a.info("master_port") == strconv.Itoa(b.port) && a.info("master_link_status") == "up"
	})
	a.dial().want("SET 1.cntcm 3", "-"+items.ErrReadOnly)
	b.dial().want("SET 1.cntcm 4", "+OK")
	if cuts := a.info("counterd_diverged_cuts"); cuts != "0" {
		t.Errorf("the old primary took changes back: %s", a.info("counterd_diverged_last"))
	}

	until(t, "the replica has it", func() bool { return a.dial().do("GET 1.cntcm").Text == "4" })
	b.stop()
	elect(a)
	until(t, "a replica leads without its primary", func() bool { return a.dial().do("SET 1.cntcm 5").Text == "OK" })
}

// TestRoleFromTheBeginning: a node that is to take no changes takes none between loading and its role either.
func TestRoleFromTheBeginning(t *testing.T) {
	for _, primary := range []string{"", "127.0.0.1 1"} { // one that Sentinel watched, and one that is to follow
		n := newReplNode(t).start("")
		if err := n.srv.Store().Replication().SetMonitored(); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			n.stop()
			answered := make(chan string)
			n.listening = func() {
				for range 4 {
					c := n.dial()
					go func() {
						for {
							if v := c.do("SET 1.cntcm 1").String(); v != "-"+items.ErrLoading {
								answered <- v
								return
							}
							time.Sleep(time.Millisecond)
						}
					}()
				}
			}
			n.start(primary)
			for range 4 {
				if v := <-answered; !strings.HasPrefix(v, "-READONLY ") {
					t.Errorf("replicaof %q: %s", primary, v)
				}
			}
			n.listening = nil
			if primary != "" { // a primary again, for the next start
				n.dial().want("REPLICAOF NO ONE", "+OK")
			}
		}
	}
}

// TestRoleRefused: a REPLICAOF that is answered by an error leaves role, link and setting as they were.
func TestRoleRefused(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start("")
	other := newReplNode(t)
	setting := func(n *replNode) string { return n.dial().do("CONFIG GET replicaof").String() }
	unnotable := func(n *replNode, want string) {
		t.Helper()
		writable := unwritable(t, n)
		if got := n.dial().do("REPLICAOF " + other.addr()).String(); got[0] != '-' {
			t.Errorf("its disk takes no note of it, and it answers %s", got)
		}
		if got := setting(n); got != want {
			t.Errorf("behind an error the setting is %s, want %s", got, want)
		}
		c := n.dial()
		c.want("MULTI", "+OK")
		c.want("REPLICAOF "+other.addr(), "+QUEUED")
		c.do("EXEC") // the change comes behind it
		until(t, "the setting is what it was", func() bool { return setting(n) == want && n.said("cannot change the role") })
		writable()
	}
	unnotable(a, `["replicaof" ""]`)
	a.dial().want("INCR 1.cntcm", ":1")
	b.dial().want("REPLICAOF "+a.addr(), "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	unnotable(b, `["replicaof" "`+a.addr()+`"]`)
	a.dial().want("INCR 1.cntcm", ":2")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
}

// TestRoleTaken: what cannot be tidied up behind a change of the role is no error of it.
func TestRoleTaken(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	if err := os.MkdirAll(filepath.Join(b.dir, "HANDOVER", "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.dial().want("REPLICAOF NO ONE", "+OK")
	b.dial().want("INCR 1.cntcm", ":1")
	if !b.said("cannot remove the record of a handover") {
		t.Error("the log says nothing of it")
	}
}

// TestPrimaryThatNoFileHolds: a primary that the setting cannot name is refused. Before, every CONFIG SET behind it
// was.
func TestPrimaryThatNoFileHolds(t *testing.T) {
	a := newReplNode(t).start("")
	c := a.dial()
	for i, args := range [][]string{{"h", "0"}, {"", "1"}, {"a b", "1"}, {"a\nport", "1"}} {
		if got := c.sendArgs("REPLICAOF", args[0], args[1]); !strings.HasPrefix(got, "-ERR Invalid master host or port") {
			t.Errorf("%q: %s", args, got)
		}
		c.want("CONFIG SET timeout 9", "+OK")
		c.want("INCR 1.cntcm", fmt.Sprintf(":%d", i+1))
	}
}
