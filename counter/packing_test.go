// Scenario: log that is only retained is compressed, beside crashes, damage and full disks.

package counter

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestPacking compresses the log below a snapshot: the store is the same after a restart and a crash, every moment of
// the log can be restored, and what is retained is counted in bytes on disk.
func TestPacking(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sim := vfs.NewSim()
	rng := rand.New(rand.NewPCG(1, 1))
	opts := Options{FS: sim, Manual: true, RetainBytes: 1 << 40, BlockItems: 4096, HashSeed: 1, SnapshotGrowth: -1}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	pack := func() {
		t.Helper()
		if !s.packing.PackAll(nil) {
			t.Fatal("not packed")
		}
	}
	var moments []uint64
	var states []map[string]string
	snapshot := func() {
		t.Helper()
		if err := load(t, s, rng, 15_000); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil { // the next start begins a segment
			t.Fatal(err)
		}
		s = openDir(t, "data", opts, "")
		moments, states = append(moments, s.data.Log.Position()), append(states, dump(t, s))
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	snapshot()
	snapshot()
	pack() // CompressLog is off
	opts.CompressLog = true
	s.Admin().SetCompressLog(true)
	pack() // no snapshot says that it may be
	if st := s.data.Log.Stats(); st.Packed != 0 {
		t.Fatalf("%+v", st)
	}
	snapshot()
	snapshot()
	before := s.data.Log.Stats()
	pack()
	st := s.data.Log.Stats()
	if st.Packed < 3 || st.DiskBytes >= before.DiskBytes*3/4 || st.SegmentBytes != before.SegmentBytes {
		t.Fatalf("%+v, before %+v", st, before)
	}
	for _, seg := range s.data.Log.Segments().List() {
		if replay := s.data.Dir.Manifests()[0].Replay; seg.Packed && seg.End > replay {
			t.Errorf("%+v is packed, the snapshot replays from %d", seg, replay)
		}
	}
	report, err := datadir.Check(vfs.NewView(sim, nil), "data", datadir.CheckOptions{Cold: ColdVerifier(sim)})
	if err != nil || !report.OK() {
		t.Fatalf("%+v, %v", report, err)
	}

	// An older program refuses the directory by its manifest.
	text, err := vfs.ReadFile(sim, "data/"+format.ManifestName(s.data.Dir.Manifests()[0].Generation), 1<<20)
	if err != nil || !strings.HasPrefix(string(text), "counterd manifest 3\n") {
		t.Fatalf("%.40q, %v", text, err)
	}

	for i, at := range moments { // the snapshots' own are gone, or not asked: the log begins at 0
		out := vfs.NewSim()
		if _, err := datadir.Restore(sim, "data", out, "out", datadir.Target{Offset: at}, datadir.RestoreOptions{}); err != nil {
			t.Fatal(at, err)
		}
		o := openDir(t, "out", Options{FS: out, Manual: true, BlockItems: 4096, HashSeed: 1}, "")
		if got := dump(t, o); !maps.Equal(got, states[i]) {
			t.Errorf("restored to %d: another state", at)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// What is kept is counted as it is on disk.
	segs := s.data.Log.Segments().List()
	kept := uint64(0)
	for _, seg := range segs[1:] {
		kept += uint64(seg.Bytes)
	}
	s.Admin().SetRetain(kept + 1)
	s.snapshots.SnapshotIfDue()
	if got := s.data.Log.Stats().First; got != 0 {
		t.Errorf("the log begins at %d", got)
	}
	s.Admin().SetRetain(kept)
	s.snapshots.SnapshotIfDue()
	if got := s.data.Log.Stats().First; got != segs[1].Start {
		t.Errorf("the log begins at %d, want %d", got, segs[1].Start)
	}

	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FS, opts.CompressLog = sim.Crash(1, 0), false
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs after a restart")
	}
	if got := s.data.Log.Stats(); got.Packed != st.Packed-1 {
		t.Errorf("after a restart %+v", got)
	}
	// Snapshots say it for as long as there are packed segments: it is off now.
	for _, packed := range []bool{true, false} {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if got := s.data.Dir.Manifests()[0].LogPacked; got != packed {
			t.Errorf("the snapshot says packed %v", got)
		}
		s.Admin().SetRetain(0)
		s.snapshots.SnapshotIfDue()
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPackingDamaged: what is packed and damaged does no harm to the start from a good snapshot, and stops one that
// needs it, with the place; a damaged segment is not packed.
func TestPackingDamaged(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sim := vfs.NewSim()
	rng := rand.New(rand.NewPCG(2, 1))
	opts := Options{FS: sim, Manual: true, RetainBytes: 1 << 40, BlockItems: 4096, HashSeed: 1, SnapshotGrowth: -1, CompressLog: true}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	for range 3 {
		if err := load(t, s, rng, 15_000); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil { // the next start begins a segment
			t.Fatal(err)
		}
		s = openDir(t, "data", opts, "")
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	segs := s.data.Log.Segments().List()
	flip := func(path string, off int64) {
		f, err := sim.OpenRW(path)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], off); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], off); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	flip(segs[0].Path, 5000)
	if !s.packing.PackAll(nil) {
		t.Fatal("gave up")
	}
	now := s.data.Log.Segments().List()
	if now[0].Packed || !now[1].Packed {
		t.Fatalf("%+v, %+v", now[0], now[1])
	}
	flip(segs[0].Path, 5000)
	flip(now[1].Path, now[1].Bytes/2)
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(fsys vfs.FS) (damage *format.CorruptError) {
		t.Helper()
		report, err := datadir.Check(vfs.NewView(fsys, nil), "data", datadir.CheckOptions{Cold: ColdVerifier(fsys)})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range report.Problems {
			if p.Path == now[1].Path && !errors.As(p.Err, &damage) {
				t.Error(p.Err)
			}
		}
		return damage
	}
	damage := check(sim)
	if damage == nil || damage.LogOffset < now[1].Start || damage.LogOffset >= now[1].End || !strings.Contains(damage.Want, "packed chunk") {
		t.Fatalf("%+v", damage)
	}
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Repair leaves alone what no start needs.
	if err := datadir.Repair(sim, "data", datadir.RepairOptions{Cold: ColdVerifier(sim)}); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs after a repair")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPackingBackground: the log is compressed by itself within seconds, not again and again on a full disk, and the
// store closes while it is at it.
func TestPackingBackground(t *testing.T) { synctest.Test(t, testPackingBackground) }

func testPackingBackground(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	rng := rand.New(rand.NewPCG(3, 1))
	opts := Options{FS: faulty, RetainBytes: 1 << 40, BlockItems: 4096, HashSeed: 1, SnapshotGrowth: -1, CompressLog: true}
	begin := func() (s *Store) {
		s = openDir(t, "data", opts, "")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(s.Schema().Counters()) == 0 {
			must(s.AlterScript("add counter a\nadd column a n hint=8 max=63 suffix=n"))
		}
		must(load(t, s, rng, 20_000))
		must(s.Close())
		s = openDir(t, "data", opts, "") // begins a segment
		must(load(t, s, rng, 2000))
		return s
	}
	s := begin()
	faulty.Inject(vfs.Rule{Ops: vfs.OpRename, Glob: "*.aof", Every: 1, Err: syscall.ENOSPC})
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(durable.PackRetry - 5*time.Second)
	if fired := faulty.Fired(); fired != 1 || s.data.Log.Stats().Packed != 0 {
		t.Fatalf("%d attempts, %+v", fired, s.data.Log.Stats())
	}
	faulty.Clear()
	time.Sleep(10 * time.Second)
	if st := s.data.Log.Stats(); st.Packed == 0 {
		t.Fatalf("%+v", st)
	}
	stops := 5
	if testing.Short() {
		stops = 2
	}
	for stop := range stops { // wherever it is
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = begin()
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + time.Duration(stop)*time.Millisecond)
	}
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, "data", opts, "")
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Error("the state differs")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
