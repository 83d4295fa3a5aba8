// Scenario: a primary starts on a full disk.

package counter

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/replica"

	"github.com/counterd/counterd/persist/vfs"
)

// TestOwedStart: a primary that started on a full disk stays one. While it tries to finish its start, changes are
// refused as the disk is full, and not as if it were a replica.
func TestOwedStart(t *testing.T) {
	sim := vfs.NewSim()
	opts := Options{FS: sim, Manual: true, HashSeed: 1}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	if err := errors.Join(s.Set("1.n", 7), s.Close()); err != nil {
		t.Fatal(err)
	}
	faulty := vfs.NewFaulty(sim)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.ENOSPC})
	opts.FS = faulty
	s = openDir(t, "data", opts, "")
	refused := func(when string) {
		t.Helper()
		if _, err := s.Incr("1.n", 1); !errors.Is(err, ErrNotReady) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: INCR: got %v, want ENOSPC", when, err)
		}
	}
	refused("started")
	until, done := make(chan struct{}), make(chan struct{})
	faulty.Clear()
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Glob: "HISTORY*", Every: 1, Err: syscall.ENOSPC, Until: until})
	for s.data.Log.Stats().Trouble != nil {
		s.data.Log.Tick()
		time.Sleep(time.Millisecond)
	}
	go func() { // what the background does now and then
		replica.WritePending(s.repl)
		close(done)
	}()
	for faulty.Hanging() == 0 {
		time.Sleep(time.Millisecond)
	}
	refused("while it is tried again")
	close(until)
	<-done
	refused("it failed again")
	faulty.Clear()
	heal(t, s, 0)
	if v, err := s.Incr("1.n", 1); err != nil || v != 8 {
		t.Errorf("the disk is well: %d, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
