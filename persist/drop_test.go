// Scenario: segments are dropped while they are read and written

package persist

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// TestDropCrash lets the power fail at every operation of a removal of old segments, and behind it: what is left has no
// gap.
func TestDropCrash(t *testing.T) {
	seed := newSeed(t)
	for n, crashed := 0, true; crashed; n++ {
		disk, c := newFS(t), newClock()
		l, _, err := OpenLog(smallLog(disk, c), 0, discard)
		must(t, err)
		for len(l.Segments().List()) < 8 {
			must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
			must(t, l.Sync())
			l.Tick()
		}
		whole, err := logfile.ListSegments(disk, testDir)
		must(t, err)
		disk.CrashAt(disk.Ops() + n)
		err = l.Segments().DropBefore(l.Position())
		if crashed = disk.Crashed(); !crashed {
			must(t, err)
		}
		for _, keep := range []int{0, 30, 50, 70, 100} {
			left, err := logfile.ListSegments(disk.Crash(seed+uint64(n), keep), testDir)
			must(t, err)
			if !slices.Equal(left, whole[len(whole)-len(left):]) {
				t.Fatalf("-seed=%d: crash at operation %d of a removal, keep %d: left %v of %v", seed, n, keep, left, whole)
			}
		}
		_ = l.Close() // after a crash it cannot
	}
}

// TestDropBeforeOpen drops segments between the moment when a reader looks one up and the moment when it opens its file. A reader
// of a dropped segment gets ErrGone, and not the error of the file system. A reader at the end of a segment stays where it was.
func TestDropBeforeOpen(t *testing.T) {
	hooks := &hookFS{FS: newFS(t)}
	l, _, err := OpenLog(smallLog(hooks, newClock()), 0, discard)
	must(t, err)
	for len(l.Segments().List()) < 8 {
		must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
		must(t, l.Sync())
		l.Tick()
	}
	segs := l.Segments().List()
	dropAtOpen := func(before uint64) {
		hooks.open = func(string) error {
			hooks.open = nil
			return l.Segments().DropBefore(before)
		}
	}
	inside, err := l.NewReaderAt(0)
	must(t, err)
	for inside.Pos() < segs[1].Start {
		if _, err := inside.TryNext(); err != nil {
			t.Fatal(err)
		}
	}
	dropAtOpen(segs[3].Start)
	if f, err := inside.TryNext(); !errors.Is(err, format.ErrGone) || inside.Pos() != segs[1].Start {
		t.Errorf("at the end of a segment: got %v, %v at %d, want ErrGone at %d", f, err, inside.Pos(), segs[1].Start)
	}
	must(t, inside.Close())
	dropAtOpen(segs[5].Start)
	if _, err := l.NewReader(segs[4].Start); !errors.Is(err, format.ErrGone) {
		t.Errorf("a new reader: got %v, want ErrGone", err)
	}
	dropAtOpen(segs[6].Start)
	r, err := l.NewReader(segs[6].Start)
	must(t, err)
	if f, err := r.TryNext(); f == nil || err != nil || f.Start != segs[6].Start {
		t.Errorf("a reader of a segment that is kept: got %v, %v", f, err)
	}
	must(t, r.Close())
	dropAtOpen(segs[7].Start)
	past := format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: testHistory.Epoch}}}
	if err := l.Segments().Restore(segs[6].Start, &past, func(uint64, uint64) ([]byte, error) { return nil, io.EOF }); !errors.Is(err, format.ErrGone) {
		t.Errorf("making a segment again: got %v, want ErrGone", err)
	}
	must(t, l.Close())
}

// TestDropBeforePack: a segment that is dropped before its file is opened for packing is passed over.
func TestDropBeforePack(t *testing.T) {
	hooks := &hookFS{FS: newFS(t)}
	_, l := packSample(t, hooks, 800)
	segs := l.Segments().List()
	hooks.open = func(string) error {
		hooks.open = nil
		return l.Segments().DropBefore(segs[len(segs)/2].Start)
	}
	n := packAll(t, l)
	if left := len(l.Segments().List()); left != len(segs)-len(segs)/2 || n != left-1 {
		t.Errorf("of %d segments %d are left, and %d were packed", len(segs), left, n)
	}
	must(t, l.Close())
}
