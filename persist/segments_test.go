package persist

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLastDurableSegment: a segment is dropped or packed when the next one has a durable byte, and not before: a power loss would
// take the next one's header, and nobody would know the history of the log.
func TestLastDurableSegment(t *testing.T) {
	sim := newFS(t)
	opts := smallLog(sim, newClock())
	opts.SegmentBytes, opts.FirstSegmentBytes = 64<<10, 64<<10
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	defer l.Close()
	for range 2_000 {
		l.AppendSet(1, 1, 7, 7)
	}
	must(t, l.Sync())
	next := testHistory
	next.Epoch++
	must(t, l.SetHistory(next))
	must(t, l.Commit(l.AppendSet(1, 1, 8, 8)))
	segs := l.Segments().List()
	if len(segs) != 2 || segs[1].Start != l.Durable() {
		t.Fatalf("%d segments, durable up to %d, want a second one that begins there", len(segs), l.Durable())
	}
	if packed, err := l.Packer().Pack(1<<60, nil); packed || err != nil {
		t.Errorf("packed %v, %v", packed, err)
	}
	must(t, l.Segments().DropBefore(segs[1].Start))
	if left := len(l.Segments().List()); left != 2 {
		t.Errorf("%d segments are left, want 2", left)
	}
	for seed := range uint64(8) {
		if _, rec, err := OpenLog(smallLog(sim.Crash(seed, 50), newClock()), 0, discard); err != nil || rec.History.ReplID != testHistory.ReplID {
			t.Errorf("after a power loss: %+v, %v", rec.History, err)
		}
	}
	must(t, l.Sync())
	if packed, err := l.Packer().Pack(1<<60, nil); !packed || err != nil {
		t.Errorf("packed %v, %v, want that it is worth it", packed, err)
	}
	must(t, l.Segments().DropBefore(segs[1].Start))
	if left := len(l.Segments().List()); left != 1 {
		t.Errorf("%d segments are left, want 1", left)
	}
}

// TestDropDuringPack: a segment that is dropped while it is packed does not come back.
func TestDropDuringPack(t *testing.T) {
	sim := newFS(t)
	opts := smallLog(sim, newClock())
	opts.SegmentBytes, opts.FirstSegmentBytes = 64<<10, 64<<10
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	defer l.Close()
	for range 4_000 {
		must(t, l.Commit(l.AppendSet(1, 1, 7, 7)))
	}
	must(t, l.Sync())
	first := l.Segments().List()[0]
	dropped := false
	packed, err := l.Packer().Pack(1<<60, func() error {
		dropped = true
		return l.Segments().DropBefore(first.End)
	})
	if err != nil || !dropped {
		t.Fatalf("packed %v, dropped %v, %v", packed, dropped, err)
	}
	if _, err := sim.Stat(first.Path); !vfs.IsNotExist(err) {
		t.Errorf("the segment is there: %v", err)
	}
}

// TestClaimOfAnother: a process whose directory was replaced by another claims nothing there.
func TestClaimOfAnother(t *testing.T) {
	sim := newFS(t)
	l, _, err := OpenLog(smallLog(sim, newClock()), 0, discard)
	must(t, err)
	defer l.Close()
	l.AppendSet(1, 1, 7, 7)
	must(t, l.Sync())
	claim := func() bool {
		l.mu.Lock()
		l.claims.wanted = true
		l.mu.Unlock()
		l.preparer.makeClaim()
		_, err := sim.Stat(format.ClaimPath(testDir))
		return err == nil
	}
	l.mu.Lock()
	l.admission.refuse(reasonGone, errors.New("another directory"))
	l.mu.Unlock()
	if claim() {
		t.Error("it claims what is durable in a directory of another process")
	}
	l.mu.Lock()
	l.admission.refuse(reasonGone, nil)
	l.mu.Unlock()
	if !claim() {
		t.Error("no claim in its own")
	}
}
