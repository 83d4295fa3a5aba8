// Scenario: a damaged file that could not be written again at first.

package counter

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// TestScrubDiskFull: the header of a cold file goes bad while the disk is full. The posts can be read, and nothing else has them, so
// the file is written again as soon as there is room, and a start finds all of them.
func TestScrubDiskFull(t *testing.T) {
	dir := t.TempDir()
	disk := vfs.NewFaulty(vfs.OS())
	s := openDir(t, dir, Options{SnapshotGrowth: -1, BlockItems: 4 << 10, FS: disk}, seedScript)
	mids := fill(t, s, 16_000, 3)
	if err := errors.Join(s.Admin().Demote("weibo", mids[0]), s.Snapshot(), s.Snapshot()); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%d.cntcm", mids[7])
	want, _, err := s.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	rounds := func(ends func(TierStats) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ends(s.Admin().TierCounts()); time.Sleep(time.Millisecond) {
			if err := s.Admin().Scrub(); err != nil && !errors.Is(err, ErrScrubbing) {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", s.Admin().TierCounts())
			}
		}
	}
	disk.Inject(vfs.Rule{Ops: vfs.OpCreate, Every: 1, Err: syscall.ENOSPC})
	flip(t, s.scrubber.Files()[0].Name(), 3)
	rounds(func(st TierStats) bool { return st.ScrubErrors > 1 })
	if got, _, err := s.Get(key); got != want || err != nil {
		t.Fatalf("%d, %v, want %d", got, err, want)
	}
	disk.Clear()
	rounds(func(st TierStats) bool { return st.ScrubMended > 0 })
	if found := DamagedRanges(s); len(found) > 0 {
		t.Errorf("still damaged: %+v", found)
	}
	for errors.Is(RenewSnapshots(s), ErrBusy) { // the scrubber's
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{SnapshotGrowth: -1}, "")
	if got, _, err := s.Get(key); got != want || err != nil {
		t.Errorf("behind a start: %d, %v, want %d", got, err, want)
	}
}
