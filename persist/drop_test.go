// Scenario: segments are dropped while they are read and written

package persist

import (
	"slices"
	"testing"

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
