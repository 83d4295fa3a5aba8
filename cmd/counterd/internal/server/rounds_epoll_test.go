//go:build linux && !noepoll

// Scenario: commands of one round of a loop share one write of the log.

package server

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRoundSharesWrite has many commands wait while the store is held: what each loop finds ready then is one round,
// and one write of the log.
func TestRoundSharesWrite(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	loops := runtime.GOMAXPROCS(0)
	all := make([]*wireClient, 20*loops)
	for i := range all {
		all[i] = wireDial(t, s, 2)
		all[i].want("PING", "+PONG")
	}
	hold := s.Store().NewBatch()
	if err := hold.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	before := s.Store().Admin().LogStats().Writes
	for i, c := range all {
		c.send(fmt.Sprintf("SET %d.cntrn 1", i))
	}
	hold.End()
	for _, c := range all {
		if got := c.read().String(); got != "+OK" {
			t.Errorf("got %s", got)
		}
	}
	// Each loop may have begun a round with the first that came, and there is one at most for each that came meanwhile.
	if n := s.Store().Admin().LogStats().Writes - before; int(n) > 4*loops {
		t.Errorf("%d writes of the log for %d commands, want at most %d", n, len(all), 4*loops)
	}
}

// TestRoundKeepsRepliesApart has the log fail at the end of a round of two connections: the first one's reply becomes a
// longer text, which must not reach into the second one's.
func TestRoundKeepsRepliesApart(t *testing.T) {
	f := vfs.NewFaulty(vfs.OS())
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: f, SnapshotGrowth: -1}, nil)
	loops := runtime.GOMAXPROCS(0)
	all := make([]*wireClient, 3*loops)
	for i := range all {
		all[i] = wireDial(t, s, 2)
		all[i].want("PING", "+PONG")
	}
	first, a, b := all[0], all[loops], all[2*loops] // of one loop
	hold := s.Store().NewBatch()
	if err := hold.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	before := s.stats.InBytes.Load()
	first.send("GET 2.cntrn") // the loop waits for the store with it, and the next two become one round
	until(t, "the loop at work", func() bool { return s.stats.InBytes.Load() > before })
	a.send("INCR 3.cntrn")
	if _, err := io.WriteString(b.conn, "PING\r\nINCR 4.cntrn\r\n"); err != nil {
		t.Fatal(err)
	}
	f.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	hold.End()
	if got := first.read().String(); got != "nil" {
		t.Errorf("got %s for GET", got)
	}
	if got := a.read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") {
		t.Errorf("got %s for the first INCR", got)
	}
	if got := b.read().String(); got != "+PONG" {
		t.Errorf("got %s for PING", got)
	}
	if got := b.read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") {
		t.Errorf("got %s for the second INCR", got)
	}
	f.Clear()
}
