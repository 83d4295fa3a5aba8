//go:build linux && !noepoll

package server

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestRoundSharesWrite has many commands wait while the store is held: what each loop finds ready then is one round, and one write of the log.
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
	before := s.Store().LogStats().Writes
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
	if n := s.Store().LogStats().Writes - before; int(n) > 4*loops {
		t.Errorf("%d writes of the log for %d commands, want at most %d", n, len(all), 4*loops)
	}
}
