// Scenario: a connection that waits for the disk, for replicas or for its client delays no other.

package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// gatedFS is a file system whose syncs wait while gate is held.
type gatedFS struct {
	vfs.FS
	waiting *atomic.Int64
	gate    *atomic.Pointer[chan struct{}]
}

type gatedFile struct {
	vfs.File
	fs gatedFS
}

func (g gatedFS) Create(name string) (vfs.File, error) { return g.wrap(g.FS.Create(name)) }
func (g gatedFS) OpenRW(name string) (vfs.File, error) { return g.wrap(g.FS.OpenRW(name)) }

func (g gatedFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gatedFile{f, g}, nil
}

func (f gatedFile) Sync() error {
	if gate := f.fs.gate.Load(); gate != nil {
		f.fs.waiting.Add(1)
		<-*gate
		f.fs.waiting.Add(-1)
	}
	return f.File.Sync()
}

// clients connects so many that each loop has some.
func clients(t *testing.T, s *Server) []*wireClient {
	list := make([]*wireClient, 3*runtime.GOMAXPROCS(0))
	for i := range list {
		list[i] = wireDial(t, s, 2)
	}
	return list
}

// TestSyncStopsNobody holds that under appendfsync always a change waits for the disk, and nobody else for it.
func TestSyncStopsNobody(t *testing.T) {
	g := gatedFS{vfs.OS(), new(atomic.Int64), new(atomic.Pointer[chan struct{}])}
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: g, SnapshotGrowth: -1}, func(c *config.Config) { c.AppendFsync = "always" })
	all := clients(t, s)
	for _, command := range []string{"ADD COUNTER other", "ADD COLUMN other mid hint=64 max=64 primarykey", "ADD COLUMN other n hint=8 max=32 suffix=o", "SET 1.o 7"} {
		all[0].want(command, "+OK")
	}
	gate := make(chan struct{})
	g.gate.Store(&gate)
	open := sync.OnceFunc(func() { g.gate.Store(nil); close(gate) })
	t.Cleanup(open)
	changing := all[:len(all)/2]
	for i, c := range changing {
		c.send(fmt.Sprintf("SET %d.cntrn 1", 10+i))
		c.send("PING")
	}
	until(t, "a sync under way", func() bool { return g.waiting.Load() > 0 })
	for _, c := range all[len(changing):] {
		c.want("PING", "+PONG")
		c.want("GET 1.o", `"7"`) // a block without changes; others are read when their changes are safe
	}
	for _, c := range changing { // nothing may be sent before the sync
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if b, err := c.r.ReadByte(); err == nil {
			t.Fatalf("answered by %q before the sync", b)
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	}
	open()
	for _, c := range changing {
		if ok, pong := c.read().String(), c.read().String(); ok != "+OK" || pong != "+PONG" {
			t.Errorf("got %s, %s", ok, pong)
		}
	}
}

// TestWaitStopsNobody has clients wait for replicas that there are not, and send more meanwhile.
func TestWaitStopsNobody(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	all := clients(t, s)
	waiting := all[:len(all)/2]
	for _, c := range waiting {
		c.send("INCR 1.cntrn")
		c.send("CLIENT ID")
		c.send("WAIT 1 0") // nobody but UNBLOCK ends it
		c.send("PING")
	}
	untilBlocked(t, s, int64(len(waiting)))
	for _, c := range all[len(waiting):] { // of every loop
		c.want("PING", "+PONG")
		c.want("GET 1.cntrn", fmt.Sprintf("%q", fmt.Sprint(len(waiting))))
	}
	ids := make([]int64, len(waiting))
	for i, c := range waiting {
		c.send("PING")
		c.send("ECHO last")
		if v := c.read(); v.Kind != ':' {
			t.Fatalf("got %v for INCR", v)
		}
		ids[i] = c.read().N
	}
	if n := s.front.Blocked(); n != int64(len(waiting)) {
		t.Errorf("%d of %d still wait", n, len(waiting))
	}
	for _, id := range ids {
		all[len(all)-1].want(fmt.Sprintf("CLIENT UNBLOCK %d", id), ":1")
	}
	for _, c := range waiting {
		for _, want := range []string{":0", "+PONG", "+PONG", `"last"`} {
			if got := c.read().String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		c.want("GET 1.cntrn", fmt.Sprintf("%q", fmt.Sprint(len(waiting))))
	}
}

// TestNothingShownBeforeSync holds that under appendfsync always nobody is told of a change that is not on the disk
// yet, in whatever words; and that who asks for something else is answered, and INFO.
func TestNothingShownBeforeSync(t *testing.T) {
	g := gatedFS{vfs.OS(), new(atomic.Int64), new(atomic.Pointer[chan struct{}])}
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: g, SnapshotGrowth: -1}, func(c *config.Config) { c.AppendFsync = "always" })
	writer, other := wireDial(t, s, 2), wireDial(t, s, 2)
	shows := map[string]string{"GET 2.cntrn": `"7"`, "EXISTS 2": ":1", "COUNTER.MGET weibo 2": "[[:0 :7]]", "DBSIZE": ":1", "SCAN 0": `["0" ["2"]]`,
		"COUNTER.DIGEST": "", "SETNX 2.cntrn 8": ":0", "MEMORY USAGE 2": ""}
	gate := make(chan struct{})
	g.gate.Store(&gate)
	open := sync.OnceFunc(func() { g.gate.Store(nil); close(gate) })
	t.Cleanup(open)
	writer.send("SET 2.cntrn 7")
	until(t, "a sync under way", func() bool { return g.waiting.Load() > 0 })
	waiting := make(map[*wireClient]string)
	for command, reply := range shows {
		c := wireDial(t, s, 2)
		c.send(command)
		waiting[c] = reply
	}
	for _, c := range clients(t, s) { // each loop has had its turn
		c.want("PING", "+PONG")
		c.want("PING", "+PONG")
	}
	if got := other.do("INFO").Text; !strings.Contains(got, "db0:keys=1") {
		t.Errorf("INFO says %q", got)
	}
	for c := range waiting {
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if b, err := c.r.ReadByte(); err == nil {
			t.Errorf("%s: answered by %q before the sync", waiting[c], b)
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	}
	open()
	for c, want := range waiting {
		if got := c.read().String(); want != "" && got != want || got[0] == '-' {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestUnreadRepliesStopNobody has a connection send a change behind a reply that it does not read, and then end:
// neither may keep the store from others that want it to themselves.
func TestUnreadRepliesStopNobody(t *testing.T) {
	s := wireServe(t, nil)
	other, slow := wireDial(t, s, 2), wireDial(t, s, 2)
	slow.want("PING", "+PONG")
	server := s.connected()[1]
	text := strings.Repeat("x", 1_000_000)
	go func() {
		_, _ = fmt.Fprintf(slow.conn, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\nINCR 1.cntrn\r\nGET 1.cntrn\r\n", len(text), text)
	}()
	until(t, "a reply that does not fit", func() bool { return server.session.Activity.Writing() })
	exec := func() {
		other.want("MULTI", "+OK")
		other.want("INCR 2.cntrn", "+QUEUED")
		if v := other.do("EXEC"); v.Kind != '*' {
			t.Errorf("got %v", v)
		}
	}
	exec()
	slow.conn.Close()
	until(t, "the connection forgotten", func() bool { return len(s.connected()) == 1 })
	exec()
}
