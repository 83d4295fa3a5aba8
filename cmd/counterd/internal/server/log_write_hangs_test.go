// Scenario: a write of the log does not return.

package server

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// TestWriteHangs: a write of the log does not end. The connection that writes is closed in the end, those that wait
// for it are answered by an error, and all others are served meanwhile, whatever event loop they are in. When the write ends, all is as before.
func TestWriteHangs(t *testing.T) {
	f := vfs.NewFaulty(vfs.OS())
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: f, SnapshotGrowth: -1}, nil)
	loops := runtime.GOMAXPROCS(0)
	first := wireDial(t, s, 2)
	writers, idle := make([]*wireClient, 2*loops), make([]*wireClient, 4*loops)
	for i := range writers {
		writers[i] = wireDial(t, s, 2)
		writers[i].want("PING", "+PONG")
	}
	for i := range idle {
		idle[i] = wireDial(t, s, 2)
		idle[i].want("PING", "+PONG")
	}
	hung := make(chan struct{})
	end := sync.OnceFunc(func() { close(hung) })
	t.Cleanup(end) // or the server of a failed test never ends
	f.Inject(vfs.Rule{Ops: vfs.OpWrite, Every: 1, Until: hung})
	first.send("INCR 2.cntrn")
	until(t, "the write hangs", func() bool { return f.Hanging() > 0 && s.Store().Admin().LogStats().Stalls })
	for _, c := range writers { // each loop has some
		c.send("INCR 2.cntrn")
	}
	for range 2 { // stalled, and then hanging
		for _, c := range idle {
			c.want("PING", "+PONG")
			c.want("GET 3.cntcm", "nil") // of the block that the hanging write changes
			c.send("INFO everything")
			if got := c.read().String(); !strings.Contains(got, "redis_version") {
				t.Errorf("INFO: got %s", got)
			}
		}
		runtime.GC() // stops the world
		until(t, "changes are refused", func() bool { return s.Store().Ready() != nil })
	}
	for _, c := range writers {
		if got := c.read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") && !strings.HasPrefix(got, "-MISCONF ") {
			t.Errorf("a change beside the hanging write: got %s", got)
		}
	}
	if list := s.troubles(); len(list) != 1 || list[0].ID != "disk" || !strings.Contains(list[0].Text, "hangs") {
		t.Errorf("a node would report %+v", list)
	}
	sentinel := wireDial(t, s, 2)
	sentinel.want("CLIENT SETNAME sentinel-0123abcd-cmd", "+OK")
	sentinel.send("PING")
	if got := sentinel.read().String(); !strings.HasPrefix(got, "-MISCONF ") {
		t.Errorf("PING of Sentinel: got %s", got)
	}
	idle[0].send("GET 2.cntrn")
	if got := idle[0].read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") {
		t.Errorf("the post that the hanging write changes: got %s", got)
	}
	idle[0].send("INCR 3.cntrn")
	if got := idle[0].read().String(); !strings.HasPrefix(got, "-MISCONF ") {
		t.Errorf("a new change: got %s", got)
	}
	if _, err := first.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection whose own write hangs: %v, want it closed", err)
	}
	f.Clear()
	end()
	until(t, "changes are taken again", func() bool { return s.Store().Ready() == nil })
	sentinel.want("PING", "+PONG")
	for i, c := range append(idle, writers...) {
		c.want(fmt.Sprintf("INCR %d.cntrn", 100+i), ":1")
	}
}
