// Scenario: a store opens on a disk that takes no writes.

package counter

import (
	"errors"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestStartUnwritable: a store opens on a disk that is full, read-only or failing; everything in it can be read, and
// changes are refused with the cause. When the disk is well the start is finished by itself: a new term, and changes
// are taken. A power failure at any of these moments loses nothing.
func TestStartUnwritable(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	errnos := []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO}
	if !*long { // one of them, another one each time
		errnos = errnos[*seed%3:][:1]
	}
	for _, errno := range errnos {
		sim := vfs.NewSim()
		opts := Options{FS: sim, Manual: true, BlockItems: 1024, HashSeed: 1}
		s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
		rng := rand.New(rand.NewPCG(1, 1))
		for range 3 {
			if err := load(t, s, rng, 20_000); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Snapshot(), s.Admin().Demote("a", 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(load(t, s, rng, 1), s.data.Log.Sync()); err != nil {
			t.Fatal(err)
		}
		want, terms := dump(t, s), len(s.repl.Lineage().Terms)

		disk := sim.Crash(1, 0)
		faulty := vfs.NewFaulty(disk)
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: errno})
		opts.FS = faulty
		s = openDir(t, "data", opts, "")
		check := func(when string, s *Store) {
			t.Helper()
			if got := dump(t, s); !maps.Equal(got, want) {
				t.Fatalf("%v, %s: the state differs", errno, when)
			}
		}
		check("started", s)
		for range 3 {
			s.snapshots.SnapshotIfDue()
			s.data.Log.Tick()
			if _, err := s.Incr("5.n", 1); !errors.Is(err, ErrNotReady) || !errors.Is(err, errno) {
				t.Fatalf("INCR: got %v", err)
			}
		}
		if err := s.Snapshot(); !errors.Is(err, errno) {
			t.Errorf("SAVE: got %v", err)
		}
		check("after refusals", s)
		for _, n := range []int{0, 50, 100} {
			opts.FS = disk.Crash(uint64(n), n)
			again := openDir(t, "data", opts, "")
			check("power failure in trouble", again)
			again.Close()
		}
		faulty.Clear()
		heal(t, s, 0)
		if got := len(s.repl.Lineage().Terms); got != terms+1 {
			t.Errorf("%d terms, want %d", got, terms+1)
		}
		check("the disk is well", s)
		if _, err := s.Incr("5.n", 1); err != nil {
			t.Fatal(err)
		}
		if err := s.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
		want = dump(t, s)
		opts.FS = disk.Crash(1, 0)
		again := openDir(t, "data", opts, "")
		check("power failure afterwards", again)
		again.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m := append(disk.Misuse(), disk.Leaks()...); len(m) > 0 {
			t.Error(m)
		}
	}
}
