// Scenario: a power loss behind a snapshot, log that is kept for a copy, and a cold file of another snapshot

package counter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestPowerLossBehindSnapshot: all posts of a snapshot are there behind a power loss, and so is the log up to where it stands.
func TestPowerLossBehindSnapshot(t *testing.T) {
	sim := vfs.NewSim()
	opts := Options{FS: sim, Manual: true, AppendFsync: SyncNo, BlockItems: 64, HashSeed: 1}
	s := openDir(t, "data", opts, seedScript)
	raise := func(from int) {
		t.Helper()
		for mid := from; mid <= 300; mid++ {
			if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	raise(1)
	if err := errors.Join(s.Admin().Demote("weibo", 1), s.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // an older snapshot without the cold file would do in place of the newest
		raise(201)
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		again := opts
		again.FS = sim.Crash(seed, 50)
		back, err := Open("data", again)
		if err != nil {
			t.Errorf("power loss %d: %v", seed, err)
			continue
		}
		for mid := 1; mid <= 300; mid++ {
			want := uint64(1)
			if mid > 200 {
				want = 3
			}
			if n, _, err := back.Get(fmt.Sprintf("%d.cntrn", mid)); n != want || err != nil {
				t.Errorf("power loss %d: post %d has %d, %v; want %d", seed, mid, n, err, want)
				break
			}
		}
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPinnedLogStays: snapshots drop no log from the offset of a pin on, and all of it when the pin is released.
func TestPinnedLogStays(t *testing.T) {
	sim := vfs.NewSim()
	s := openDir(t, "data", Options{FS: sim, Manual: true, BlockItems: 64, HashSeed: 1, SegmentBytes: 4 << 10}, seedScript)
	defer s.Close()
	first := func() uint64 {
		t.Helper()
		segs, err := logfile.ListSegments(sim, "data")
		if err != nil || len(segs) == 0 {
			t.Fatal(segs, err)
		}
		return segs[0].Start
	}
	snapshots := func() {
		t.Helper()
		for i := range 4 {
			for mid := range 2000 {
				if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid+1), int64(i+1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	pin := s.Pins().PinLog(0)
	snapshots()
	if at := first(); at != 0 {
		t.Errorf("the log begins at %d, it is pinned from 0 on", at)
	}
	pin.Release()
	snapshots()
	if first() == 0 {
		t.Error("no log was dropped")
	}
}

// TestColdFileOfAnotherStore: a whole cold file of the same range, with other values, does not take the place of the file that was there.
func TestColdFileOfAnotherStore(t *testing.T) {
	var disks [2]*vfs.Sim
	var paths [2]string
	for i := range disks {
		disks[i] = vfs.NewSim()
		s := openDir(t, "data", Options{FS: disks[i], Manual: true, BlockItems: 64, HashSeed: 1}, seedScript)
		for mid := range 300 {
			if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid+1), int64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.Admin().Demote("weibo", 1), s.Snapshot(), s.Close()); err != nil {
			t.Fatal(err)
		}
		names, err := disks[i].List(format.ColdDir("data"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		paths[i] = format.ColdDir("data") + "/" + names[0]
	}
	other, err := vfs.ReadFile(disks[1], paths[1], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := disks[0].Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(disks[0], paths[0], other); err != nil {
		t.Fatal(err)
	}
	s, err := Open("data", Options{FS: disks[0], Manual: true, BlockItems: 64, HashSeed: 1})
	if err == nil {
		defer s.Close()
		if n, _, err := s.Get("1.cntrn"); n != 1 && err == nil {
			t.Errorf("it serves %d of another store", n)
		}
	} else if !errors.Is(err, format.ErrCorrupt) {
		t.Error(err)
	}
}
