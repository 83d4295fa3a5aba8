// Scenario: disks that are small or full, and what is kept free on them.

package counter

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// load makes n changes of a hundred thousand posts, in batches, with what the background does in a second after each;
// it stops when changes are refused.
func load(t *testing.T, s *Store, rng *rand.Rand, n int) (refused error) {
	t.Helper()
	for done := 0; done < n; {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		def := b.Schema().Counters()[0]
		for range 2000 {
			b.Add(Op{Kind: OpAdd, Counter: def, Mid: rng.Uint64N(100_000), Arg: 1})
		}
		b.Run()
		for i := range b.Len() {
			if op := b.Op(i); op.Err != nil {
				refused = op.Err
			} else {
				done++
			}
		}
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatalf("what was let in did not fit: %v", err)
		}
		s.data.Log.Tick()
		s.snapshots.SnapshotIfDue()
		if refused != nil {
			return refused
		}
	}
	return nil
}

func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	list, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSmallDisk: a server whose log would fill the disk twice over never refuses a change: log that is only retained is
// dropped, snapshots are made early, and segments are made as large as there is room.
func TestSmallDisk(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk, most := int64(12<<20), uint64(14<<20)
	if *long {
		disk, most = 16<<20, 32<<20
	}
	sim := vfs.NewSim()
	sim.SetCapacity(disk)
	rng := rand.New(rand.NewPCG(1, 1))
	opts := Options{FS: sim, Manual: true, RetainBytes: 1 << 30, BlockItems: 4096, HashSeed: 1}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	for s.data.Log.Position() < most {
		if err := load(t, s, rng, 100_000); err != nil {
			t.Fatal("refused:", err)
		}
	}
	if st := s.Admin().Disk(); st.Dropped == 0 || st.Total != disk {
		t.Errorf("%+v", st)
	}
	if saves := s.Admin().Snapshots(); saves.Made < 2 || saves.Failed > 0 {
		t.Errorf("%+v", saves)
	}
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FS = sim.Crash(1, 0)
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs after a crash")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReserve: without snapshots the log fills the disk, but for what a snapshot takes: then changes are refused, reads
// go on, and two snapshots made by hand are the way out.
func TestReserve(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sim := vfs.NewSim()
	sim.SetCapacity(20 << 20)
	rng := rand.New(rand.NewPCG(1, 1))
	opts := Options{FS: sim, Manual: true, BlockItems: 4096, HashSeed: 1, SnapshotGrowth: -1}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	if err := load(t, s, rng, 1<<30); !errors.Is(err, ErrNotReady) || !vfs.IsNoSpace(err) {
		t.Fatal("got", err)
	}
	if st := s.Admin().Disk(); !st.Low || st.Free < st.Reserve || st.Free > st.Reserve+2<<20 {
		t.Errorf("%+v", st)
	}
	dump(t, s)
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal("the way out does not fit:", err)
		}
	}
	s.snapshots.SnapshotIfDue()
	s.data.Log.Tick()
	if err := load(t, s, rng, 10_000); err != nil {
		t.Error("refused though there is room:", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSnapshots: snapshots that fail leave nothing behind, however often they are tried while posts change, and
// the next one that does not fail is whole.
func TestFailedSnapshots(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sim := vfs.NewSim()
	faulty := vfs.NewFaulty(sim)
	opts := Options{FS: faulty, Manual: true, BlockItems: 1024, HashSeed: 1}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2 {
		if err := load(t, s, rng, 50_000); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	before := len(names(t, sim, format.ImageDir("data")))
	for i, glob := range []string{"*.hot.tmp", "*.hot.tmp", "*.hot.tmp", "MANIFEST*"} {
		if err := load(t, s, rng, 20_000); err != nil {
			t.Fatal(err)
		}
		faulty.Clear()
		faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Glob: glob, Skip: 5 * i % 15, Every: 1, Err: syscall.ENOSPC})
		if err := s.Snapshot(); !vfs.IsNoSpace(err) {
			t.Fatalf("%s: got %v", glob, err)
		}
		if n := len(names(t, sim, format.ImageDir("data"))); n != before {
			t.Errorf("%s: %d image files after a failed snapshot, %d before", glob, n, before)
		}
	}
	faulty.Clear()
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs after a restart")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotPause: a snapshot that failed is tried again after a second, then after longer and longer; one that was
// made ends that.
func TestSnapshotPause(t *testing.T) { synctest.Test(t, testSnapshotPause) } // a second is one however busy the machine is

func testSnapshotPause(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	s := openDir(t, "data", Options{FS: faulty, Manual: true, SnapshotGrowth: 1 << 20, HashSeed: 1}, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Glob: "*.hot.tmp", Every: 1, Err: syscall.ENOSPC})
	rng := rand.New(rand.NewPCG(1, 1))
	if err := load(t, s, rng, 200_000); err != nil {
		t.Fatal(err)
	}
	pauses := []time.Duration{s.snapshots.Pause}
	for range 7 {
		if s.snapshots.SnapshotIfDue(); s.snapshots.Due(false) {
			t.Fatal("no pause after a failure")
		}
		s.snapshots.Stats.LastStarted = time.Now().Add(-2 * durable.MaxPause)
		s.snapshots.SnapshotIfDue()
		pauses = append(pauses, s.snapshots.Pause)
	}
	if pauses[0] != time.Second || pauses[1] != 2*time.Second || pauses[7] != durable.MaxPause {
		t.Error("pauses:", pauses)
	}
	faulty.Clear()
	s.snapshots.Stats.LastStarted = time.Now().Add(-2 * durable.MaxPause)
	if s.snapshots.SnapshotIfDue(); s.snapshots.Pause != 0 || s.Admin().Snapshots().LastErr != nil {
		t.Errorf("pause %v, %+v", s.snapshots.Pause, s.Admin().Snapshots())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDemoteKeepsReserve: a range is not written to a file out of what is reserved for a snapshot.
func TestDemoteKeepsReserve(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sim := vfs.NewSim()
	sim.SetCapacity(64 << 20)
	s := openDir(t, "data", Options{FS: sim, Manual: true, BlockItems: 4096, HashSeed: 1}, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	if err := load(t, s, rand.New(rand.NewPCG(1, 1)), 100_000); err != nil {
		t.Fatal(err)
	}
	space, _ := sim.Space("/")
	ballast, err := sim.Create("ballast")
	if err == nil {
		err = ballast.Preallocate(space.Free - s.Admin().Disk().Reserve)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = s.Admin().Demote("a", 0)
	if !vfs.IsNoSpace(err) || !strings.Contains(err.Error(), "cold file") {
		t.Errorf("got %v", err)
	}
	if err := sim.Remove(filepath.Join("/", "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := s.Admin().Demote("a", 0); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), ballast.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestMakeRoom: where the next snapshot does not fit, the one before the newest is given up, and the log before it, but
// only after the newest was read and found good.
func TestMakeRoom(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, snapshots := range []int{1, 2} {
		for _, damaged := range []bool{false, true} {
			if testing.Short() && damaged == (snapshots == 1) {
				continue
			}
			sim := vfs.NewSim()
			opts := Options{FS: sim, Manual: true, BlockItems: 4096, HashSeed: 1}
			s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
			rng := rand.New(rand.NewPCG(1, 1))
			for range snapshots {
				if err := errors.Join(load(t, s, rng, 400_000), s.Admin().Demote("a", 0), s.Snapshot()); err != nil {
					t.Fatal(err)
				}
			}
			if err := load(t, s, rng, 100_000); err != nil {
				t.Fatal(err)
			}
			newest := s.data.Dir.Manifests()[0]
			if damaged {
				var path string
				_ = newest.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
					path = b.Path("data")
					return nil
				})
				f, err := sim.OpenRW(path)
				if err == nil {
					_, err = f.WriteAt([]byte("damage"), 200)
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			sim.SetCapacity(1 << 40)
			space, _ := sim.Space("/")
			sim.SetCapacity(1<<40 - space.Free + s.space.SnapshotBytes()/2)
			first := s.data.Log.Stats().First
			s.snapshots.SnapshotIfDue()
			if gaveUp := len(s.data.Dir.Manifests()) < snapshots || s.data.Log.Stats().First > first; gaveUp == damaged {
				t.Fatalf("%d snapshots, damaged %v: %d left, log from %d", snapshots, damaged, len(s.data.Dir.Manifests()), s.data.Log.Stats().First)
			}
			if !damaged {
				want := dump(t, s)
				opts.FS = sim.Kill()
				again := openDir(t, "data", opts, "")
				if !maps.Equal(dump(t, again), want) {
					t.Errorf("%d snapshots: the state differs after a kill", snapshots)
				}
				again.Close()
			}
			if err := s.Snapshot(); (err == nil) == damaged {
				t.Errorf("%d snapshots, damaged %v: SAVE: %v", snapshots, damaged, err)
			}
			if !damaged && s.data.Dir.ReplayFrom() != newest.Replay {
				t.Errorf("replay from %d, want %d", s.data.Dir.ReplayFrom(), newest.Replay)
			}
			sim.SetCapacity(0)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
