// Scenario: a segment begins beside a sync, or behind disk trouble

package persist

import (
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// TestRotationDuringSync: a segment that gets its name while older ones are synced has a durable name when its bytes count as durable.
func TestRotationDuringSync(t *testing.T) {
	sim := newFS(t)
	faulty := vfs.NewFaulty(sim)
	opts := smallLog(faulty, newClock())
	opts.Policy = SyncEverySec
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(l.AppendSet(1, 1, 7, 7)))
	until := make(chan struct{})
	faulty.Inject(vfs.Rule{Ops: vfs.OpSync, Until: until})
	synced := make(chan error)
	go func() { synced <- l.Sync() }()
	for faulty.Hanging() == 0 {
		time.Sleep(time.Millisecond)
	}
	for len(l.Segments().List()) < 2 {
		must(t, l.Commit(l.AppendSet(1, 1, 7, 7)))
	}
	close(until)
	must(t, <-synced)
	must(t, l.Sync())
	durable := l.Durable()
	if durable != l.Position() {
		t.Fatalf("durable up to %d of %d", durable, l.Position())
	}
	for seed := range uint64(8) {
		_, rec, err := OpenLog(smallLog(sim.Crash(seed, 50), newClock()), 0, discard)
		if err != nil || rec.End < durable {
			t.Errorf("power loss %d: %v; the log ends at %d, %d were durable", seed, err, rec.End, durable)
		}
	}
	must(t, l.Close())
}

// TestChainBehindTrouble: a segment that begins when the disk is well again follows the frames that were written only then.
func TestChainBehindTrouble(t *testing.T) {
	l, faulty, c := openFaulty(t, func(o *LogOptions) { o.Policy = SyncAlways })
	must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EROFS})
	for i := range uint64(3) {
		if l.Commit(l.AppendSet(1, 1, 2, i)) == nil {
			t.Fatal("the disk took a change")
		}
	}
	faulty.Clear()
	c.At = c.At.Add(maxHealDelay)
	l.Tick()
	must(t, l.Ready())
	next := testHistory
	next.Epoch++
	must(t, l.SetHistory(next)) // has the next frame begin a segment
	must(t, l.Commit(l.AppendSet(1, 1, 3, 3)))
	if n := len(l.Segments().List()); n < 2 {
		t.Fatalf("%d segments, want two", n)
	}
	if bad, err := l.Segments().Verify(nil); len(bad) > 0 || err != nil {
		t.Errorf("damaged are %v, %v", bad, err)
	}
	must(t, l.Close())
}
