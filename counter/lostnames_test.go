// Scenario: a power loss that takes each name that no sync of its directory made durable

package counter

import (
	"errors"
	"fmt"
	"path"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// syncPoints is a Sim that calls each behind every change of a directory. Syncs of the directory forget do nothing.
type syncPoints struct {
	*vfs.Sim
	forget string
	each   func(what string)
}

func (s *syncPoints) changed(err error, op, name string) error {
	if err == nil {
		s.each(op + " " + name)
	}
	return err
}

func (s *syncPoints) SyncDir(dir string) error {
	if path.Clean(dir) == s.forget {
		return nil
	}
	return s.changed(s.Sim.SyncDir(dir), "sync of", dir)
}

func (s *syncPoints) Rename(from, to string) error {
	return s.changed(s.Sim.Rename(from, to), "rename to", to)
}

func (s *syncPoints) Remove(name string) error {
	return s.changed(s.Sim.Remove(name), "removal of", name)
}

// lostNames makes snapshots, cold files and log segments, and lets the power fail behind every change of a directory. The power
// loss takes every name that was not synced. missing says which posts the stores then lack; points counts the power losses.
// Syncs of the directory forget do nothing once the store is made.
func lostNames(t *testing.T, forget string) (missing []error, points int) {
	const posts = 300
	var acked [posts + 1]uint64
	sim := &syncPoints{Sim: vfs.NewSim(), each: func(string) {}}
	if forget == "." { // it holds nothing but the store's name
		sim.forget = forget
	}
	opts := Options{FS: sim, Manual: true, AppendFsync: SyncAlways, BlockItems: 64, HashSeed: 1, SegmentBytes: 4 << 10}
	s := openDir(t, "data", opts, seedScript)
	check := func(what string) error {
		again := opts
		again.FS = sim.CrashNames()
		back, err := Open("data", again)
		if err != nil {
			return fmt.Errorf("power loss behind the %s: %w", what, err)
		}
		for mid := 1; mid <= posts && err == nil; mid++ {
			var n uint64
			n, _, err = back.Get(fmt.Sprintf("%d.cntrn", mid))
			if err == nil && (n < acked[mid] || n > acked[mid]+1) {
				err = fmt.Errorf("got %d, want %d", n, acked[mid])
			}
			if err != nil {
				err = fmt.Errorf("power loss behind the %s: post %d: %w", what, mid, err)
			}
		}
		return errors.Join(err, back.Close())
	}
	sim.each = func(what string) {
		points++
		if err := check(what); err != nil {
			missing = append(missing, err)
		}
	}
	raise := func(from int) {
		t.Helper()
		for mid := from; mid <= posts; mid++ {
			if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid), 1); err != nil {
				t.Fatal(err)
			}
			acked[mid]++
		}
	}
	snapshots := func() { // two: no older files can take the place of theirs
		t.Helper()
		for range 2 {
			raise(posts - 60)
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	raise(1)
	sim.forget = forget
	snapshots()
	for range 2 { // the second time the cold file is written again
		if err := s.Admin().Demote("weibo", 1); err != nil {
			t.Fatal(err)
		}
		snapshots()
		raise(1)
	}
	sim.each = func(string) {}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return missing, points
}

// TestLostNames: all posts are there behind a power loss that takes every name not synced, at every change of a directory.
// Without the syncs of any one of the directories posts are lost: so this test sees each of them.
func TestLostNames(t *testing.T) {
	missing, points := lostNames(t, "")
	if len(missing) > 0 {
		t.Errorf("%d of %d power losses, the first: %v", len(missing), points, missing[0])
	}
	t.Logf("%d power losses", points)
	for _, dir := range []string{format.ColdDir("data"), format.ImageDir("data"), format.LogDir("data"), "data", "."} {
		missing, points := lostNames(t, dir)
		if len(missing) == 0 {
			t.Errorf("%d power losses without a sync of %s: nothing was lost", points, dir)
		} else {
			t.Logf("without a sync of %s: %d of %d, the first: %v", dir, len(missing), points, missing[0])
		}
	}
}
