// Scenario: power failures and disk faults at every operation of the file system.

package counter

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var long = flag.Bool("long", false, "run the random tests for as many rounds, and on as many posts, as make crash wants")

// TestCrash runs random work and lets the power fail after every operation of the file system; what is recovered must
// be the acknowledged state or one that a prefix of what was under way leads to. And again with kill -9.
func TestCrash(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	newRand(t)
	runs, points := 1, 0
	if *long {
		runs = 2000
	}
	for run := range runs {
		seed := *seed + uint64(run)
		for at := 0; ; at++ {
			sim := vfs.NewSim()
			sim.TornCrashAt(at, []int{0, 50, 100}[at%3])
			p, err := newPlayer(t, seed, sim)
			for i := 0; err == nil && i < 25; i++ {
				err = p.step(t)
			}
			if !sim.Crashed() {
				if err != nil {
					t.Fatalf("seed %d: no crash, but %v", seed, err)
				}
				if p.s != nil {
					p.s.Close()
				}
				break
			}
			kept := []int{0, 30, 70, 100}
			if !*long { // one of them, another one each time
				kept = kept[at%len(kept):][:1]
			}
			for _, keep := range kept {
				p.check(t, sim.Crash(seed+uint64(at), keep), fmt.Sprintf("-seed=%d: power failure at operation %d, %d%% of unsynced bytes kept", seed, at, keep))
				points++
			}
			p.check(t, sim.Kill(), fmt.Sprintf("-seed=%d: kill at operation %d", seed, at))
			points++
			if p.s != nil {
				p.s.Close()
			}
		}
	}
	t.Logf("%d crash points", points)
}

// TestFaultEveryOperation lets every single operation of the file system fail, one a run or two close together, with
// several errors. The store may refuse, but must neither panic nor lose nor invent anything, reads go on, and once the
// disk is well writes are taken again without a restart.
func TestFaultEveryOperation(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	newRand(t)
	kinds := []error{errIO, errNoSpace}
	if !*long { // one of them, another one each time
		kinds = kinds[*seed%2:][:1]
	}
	first, step := int(*seed/2%6), 6 // every sixth operation, others each time
	if *long {
		first, step = 0, 1
	}
	for _, kind := range kinds {
		for n := first; ; n += step {
			sim := vfs.NewSim()
			faulty := vfs.NewFaulty(sim)
			p := &player{rng: rand.New(rand.NewPCG(*seed, 9)), sim: sim, states: []map[string]string{{"schema": ""}},
				made: map[string]Once{}, seqs: map[string]uint64{}, epochs: map[string]uint64{}}
			opts := Options{BlockItems: 16, HashSeed: 7, AppendFsync: SyncAlways, Manual: true, FS: faulty}
			faulty.FailNth(n, kind)
			if kind == errNoSpace { // and one more, while the first is being mended
				faulty.FailNth(n+1+n%7, errIO)
			}
			s, err := Open("data", opts)
			if err != nil {
				faulty.Clear()
				if s, err = Open("data", opts); err != nil {
					t.Fatalf("operation %d: the disk is well again, but %v", n, err)
				}
			}
			p.s = s
			if err := s.AlterScript(playSchemaScript); err != nil {
				faulty.Clear()
				heal(t, s, n)
				if err := s.AlterScript(playSchemaScript); err != nil {
					t.Fatalf("operation %d: the disk is well again, but %v", n, err)
				}
			}
			for range 30 {
				switch p.rng.IntN(12) {
				case 0, 1:
					_ = s.Snapshot()
					continue
				case 2:
					_ = s.Admin().Demote("a", p.mid())
					continue
				case 3:
					_ = s.Admin().Promote("a", p.mid())
					continue
				case 4, 5, 6:
					_ = p.numbered(t)
				default:
					_ = p.batch(t)
				}
				s.data.Log.Tick()
				s.snapshots.SnapshotIfDue()
			}
			fired := faulty.Fired()
			faulty.Clear()
			heal(t, s, n)
			if err := s.Set("1.v", 17); err != nil {
				t.Fatalf("operation %d: the disk is well again, but %v", n, err)
			}
			want := dump(t, s)
			if err := s.Close(); err != nil {
				t.Fatalf("operation %d: Close: %v", n, err)
			}
			opts.FS = sim.Crash(*seed, 0)
			s, err = Open("data", opts)
			if err != nil {
				t.Fatalf("operation %d: recovery: %v", n, err)
			}
			if got := dump(t, s); !maps.Equal(got, want) {
				t.Fatalf("-seed=%d: operation %d with %v: got %v, want %v", *seed, n, kind, got, want)
			}
			s.Close()
			if fired == 0 {
				t.Logf("%d operations", n)
				break
			}
		}
	}
}

// heal lets the log try again until it takes writes.
func heal(t testing.TB, s *Store, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // attempts have pauses between them
		s.snapshots.SnapshotIfDue()
		if s.data.Log.Ready() == nil {
			return
		}
		s.data.Log.Tick()
	}
	t.Fatalf("operation %d: the log stays out of service: %v", n, s.data.Log.Ready())
}

// TestRestart compares a store on the real file system with itself after restarts, with snapshots and without.
func TestRestart(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		s, err := Open(dir, Options{BlockItems: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AlterScript(seedScript); err != nil {
			t.Fatal(err)
		}
		mids := fill(t, s, 20_000, 3)
		if snapshot {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		for _, mid := range mids[:100] {
			if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid), 100_000); err != nil {
				t.Fatal(err)
			}
		}
		if snapshot {
			images := s.Admin().Snapshots().LastImages
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			if got := s.Admin().Snapshots().LastImages; got >= images || got == 0 {
				t.Errorf("the second snapshot wrote %d images, want some, but fewer than the first's %d", got, images)
			}
		}
		want := dump(t, s)
		if _, err := Open(dir, Options{}); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("a second Open of the directory: got %v, want ErrLocked", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, Options{BlockItems: 500}); err != nil {
			t.Fatal(err)
		}
		if got := dump(t, s); !maps.Equal(got, want) {
			t.Errorf("snapshot %v: got %d items after the restart, want %d", snapshot, len(got), len(want))
		}
		if snapshot {
			if n := s.Admin().Snapshots().Replayed; n != 0 {
				t.Errorf("got %d records replayed behind a snapshot, want 0", n)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadSnapshot damages the newest snapshot's files: the one before is used, with the log behind it, and nothing is
// missing. When both are bad, the log from its beginning is used, and when that is bad, too, the start is refused by name.
func TestBadSnapshot(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Set("5.cntrn", uint64(i)); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "rdb", "*.hot"))
	slices.SortFunc(images, func(a, b string) int { return strings.Compare(fmt.Sprintf("%40s", a), fmt.Sprintf("%40s", b)) })
	if len(images) != 2 {
		t.Fatalf("got images %v, want 2", images)
	}
	damage := func(name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(name, b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, image := range []string{images[1], images[0]} {
		damage(image)
		if s, err = Open(dir, Options{SnapshotGrowth: -1}); err != nil {
			t.Fatal(err)
		}
		if v, found, err := s.Get("5.cntrn"); v != 2 || !found || err != nil {
			t.Errorf("got %d, %v, %v, want 2", v, found, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log, _ := filepath.Glob(filepath.Join(dir, "log", "*.aof"))
	flip(t, log[0], 200)
	_, err = Open(dir, Options{})
	var corrupt *format.CorruptError
	if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "counterctl repair") {
		t.Errorf("with both snapshots bad: got %v, want a CorruptError that prints the repair command", err)
	}
}

var errIO, errNoSpace error = syscall.EIO, syscall.ENOSPC

// TestRestoreEverywhere plays, notes the state at every step, and restores to each of them, from directories with
// whatever snapshots, cold files, dropped columns and counters, and clears came before and after. Every offset between
// can be restored too.
func TestRestoreEverywhere(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	newRand(t)
	runs := 2
	if *long {
		runs = 500
	}
	reached, refused := 0, 0
	for run := range runs {
		seed := *seed + uint64(run)
		sim := vfs.NewSim()
		p, err := newPlayer(t, seed, sim)
		if err != nil {
			t.Fatal(err)
		}
		type moment struct {
			at   uint64
			want map[string]string
		}
		moments := []moment{{p.s.data.Log.Position(), p.states[0]}}
		restore := func(target uint64) map[string]string {
			t.Helper()
			out := vfs.NewSim()
			done, err := datadir.Restore(sim, "data", out, "out", datadir.Target{Offset: target}, datadir.RestoreOptions{Cold: ColdVerifier(out)})
			var window *datadir.WindowError
			if errors.As(err, &window) && window.Window != nil && target < window.Window.From {
				refused++
				return nil
			}
			if err != nil || done.Offset > target {
				t.Fatalf("-seed=%d: restore to %d of %d: %+v, %v", seed, target, p.s.data.Log.Position(), done, err)
			}
			if r, err := datadir.Check(out, "out", datadir.CheckOptions{Cold: ColdVerifier(out)}); err != nil || !r.OK() {
				t.Fatalf("-seed=%d: restored to %d: %+v, %v", seed, target, r, err)
			}
			opts := p.opts
			opts.FS = out
			s, err := Open("out", opts)
			if err != nil {
				t.Fatalf("-seed=%d: restored to %d: %v", seed, target, err)
			}
			defer s.Close()
			reached++
			return dump(t, s)
		}
		for i := range 60 {
			if err := p.step(t); err != nil {
				t.Fatal(err)
			}
			if at := p.s.data.Log.Position(); at != moments[len(moments)-1].at {
				moments = append(moments, moment{at, p.states[0]})
			}
			if i%20 != 19 {
				continue
			}
			if err := p.s.data.Log.Sync(); err != nil {
				t.Fatal(err)
			}
			for _, m := range moments {
				if got := restore(m.at); got != nil && !maps.Equal(got, m.want) {
					t.Fatalf("-seed=%d, step %d: restored to %d: got %v, want %v", seed, i, m.at, got, m.want)
				}
			}
			for range 5 {
				restore(p.rng.Uint64N(p.s.data.Log.Position() + 1))
			}
		}
		if err := p.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if reached < 20*runs {
		t.Errorf("%d targets were reached and %d refused", reached, refused)
	}
}
