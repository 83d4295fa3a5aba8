// Scenario: the disk has no room for a full copy.

package repl

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// TestNoRoomForCopy: a healing replica finds no room for the copy. Images and cold files that were set aside go if the primary has all that is in
// them, and the log stays; the next attempt finds the room. Where the node had changes of its own, nothing goes.
func TestNoRoomForCopy(t *testing.T) {
	for _, own := range []bool{false, true} {
		a := laterTerms(t)
		said := append([]byte(hello), a.copied(t)...)
		c := &testHost{t: t, sim: vfs.NewSim()}
		c.open()
		if err := newTestLink(t, c, true).hears(said); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if own {
			if _, err := c.Store().Replication().Lead(); err != nil {
				t.Fatal(err)
			}
			if err := c.Store().Set("999.n", 1); err != nil {
				t.Fatal(err)
			}
			c.commit()
		}
		if err := c.Store().Snapshot(); err != nil {
			t.Fatal(err)
		}
		l, faulty := healsWithoutRoom(t, c)
		if err := l.hears(said); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("own changes %v: %v", own, err)
		}
		if _, err := c.sim.Stat("data/rdb.damaged-1"); vfs.IsNotExist(err) == own {
			t.Errorf("own changes %v: the images that were set aside: %v", own, err)
		}
		if _, err := c.sim.Stat("data/log.damaged-1"); err != nil {
			t.Errorf("own changes %v: the log that was set aside: %v", own, err)
		}
		faulty.Clear()
		if err := l.hears(said); !errors.Is(err, io.EOF) {
			t.Fatalf("own changes %v: with room: %v", own, err)
		}
		if got, want := digest(t, c.Store()), digest(t, a.Store()); got != want {
			t.Errorf("own changes %v: %s, want %s", own, got, want)
		}
	}
}

// healsWithoutRoom sets the data of a replica aside, and returns its link to the primary. The disk has no room for a copy until faulty is cleared.
func healsWithoutRoom(t *testing.T, c *testHost) (l *Link, faulty *vfs.Faulty) {
	t.Helper()
	if err := errors.Join(c.Store().Close(), past.GiveUp(c.sim, "data", format.Healing{Reason: "a bad page", Since: 1})); err != nil {
		t.Fatal(err)
	}
	faulty = vfs.NewFaulty(c.sim)
	c.fs = faulty
	c.open()
	l = newTestLink(t, c, true)
	h, err := past.ReadHealing(c.sim, "data")
	if err != nil || h == nil {
		t.Fatal(h, err)
	}
	l.node.healing.now.Store(h)
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Glob: "copy-*", Every: 1, Err: syscall.ENOSPC})
	return l, faulty
}

// TestNoRoomForCopyAndDamageThere: the primary of a healing replica without room for the copy has a cold file that it cannot read. The replica
// asks before it removes anything, and keeps its own. It removes them where the primary has read all of the file.
func TestNoRoomForCopyAndDamageThere(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", "-LOST a bad page\r\n", "-ERR syntax error\r\n"} {
		head, files := splitCopy(t, newWorld(t).primary.copied(t))
		c := &testHost{t: t, sim: vfs.NewSim()}
		c.open()
		if err := newTestLink(t, c, true).hears([]byte(hello + head + files)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		l, _ := healsWithoutRoom(t, c)
		for _, said := range []string{"", reply} {
			if _, err := c.sim.Stat("data/cold.damaged-1"); err != nil {
				t.Errorf("%q: the cold files that were set aside, before the primary was asked: %v", reply, err)
			}
			if err := l.hears([]byte(hello + head + said + files)); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%q: %v", reply, err)
			}
		}
		if _, err := c.sim.Stat("data/cold.damaged-1"); vfs.IsNotExist(err) != (reply[0] == '+') {
			t.Errorf("%q: the cold files that were set aside: %v", reply, err)
		}
	}
}

// splitCopy splits the words of a primary that is copied before the first file.
func splitCopy(t *testing.T, said []byte) (head, files string) {
	t.Helper()
	at := bytes.Index(said, []byte("\r\n$"))
	if at < 0 {
		t.Fatal("no file is sent")
	}
	return string(said[:at+2]), string(said[at+2:])
}
