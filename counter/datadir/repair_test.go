package datadir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

func TestCheckClean(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	before := disk.Ops()
	r, err := Check(disk, persisttest.Dir, CheckOptions{})
	persisttest.Must(t, err)
	if len(r.Problems) > 0 || r.Manifests != 2 || r.Images != 4 || r.Log.Records != 120 {
		t.Errorf("report %+v", r)
	}
	if disk.Ops() != before {
		t.Error("Check changed something")
	}
	r, err = Check(persisttest.NewFS(t), persisttest.Dir, CheckOptions{})
	persisttest.Must(t, err)
	if !r.OK() || len(r.Problems) > 0 {
		t.Errorf("empty directory: %+v", r)
	}
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// TestCheckSpare: damage of a file that no start needs is damage. counterctl check said that nothing is damaged.
func TestCheckSpare(t *testing.T) {
	_, clean, _ := persisttest.SampleDir(t)
	segs, err := logfile.Segments(clean, persisttest.Dir)
	persisttest.Must(t, err)
	for name, path := range map[string]string{"an old segment": segs[0].Path, "one of two snapshots": filepath.Join(persisttest.Dir, format.ManifestName(1))} {
		disk := clean.Kill()
		persisttest.Damage(t, disk, path, 70)
		r, err := Check(disk, persisttest.Dir, CheckOptions{})
		persisttest.Must(t, err)
		if !r.OK() || r.Whole() {
			t.Errorf("%s: a server starts %v, nothing is damaged %v: %v", name, r.OK(), r.Whole(), r.Problems)
		}
	}
}

// TestRepair damages one file after the other in many places: Check names the file, Repair makes the directory one
// that opens, keeps what it cut, and finds nothing to do a second time.
func TestRepair(t *testing.T) {
	model, clean, opts := persisttest.SampleDir(t)
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	var files []string
	for _, sub := range []string{"", "log", "rdb"} {
		names, err := clean.List(filepath.Join(persisttest.Dir, sub))
		persisttest.Must(t, err)
		for _, name := range names {
			path := filepath.Join(persisttest.Dir, sub, name)
			if info, err := clean.Stat(path); err == nil && !info.IsDir() && name != "LOCK" {
				files = append(files, path)
			}
		}
	}
	for _, path := range files {
		whole, err := vfs.ReadFile(clean, path, 1<<20)
		persisttest.Must(t, err)
		for _, off := range []int{-1, 0, 9, 70, 100, 150, 200, 300, 400, 500, 700, 900} {
			if off >= len(whole) || off > 0 && format.AllZero(whole[off:]) {
				continue
			}
			disk := clean.Kill()
			if off < 0 {
				persisttest.Must(t, disk.Remove(path))
			} else {
				persisttest.Damage(t, disk, path, int64(off))
			}
			disk = disk.Crash(0, 100) // the persisttest.Damage is on the disk
			what := fmt.Sprintf("%s byte %d", path, off)
			r, err := Check(disk, persisttest.Dir, CheckOptions{})
			persisttest.Must(t, err)
			if len(r.Problems) == 0 && off >= 0 {
				t.Fatalf("%s: Check found nothing", what)
			}
			var said []string
			for at := range 2 { // a repair that crashes somewhere is finished by the next
				torn := disk.Kill()
				torn.CrashAt(at + 2*rng.IntN(12))
				_ = Repair(torn, persisttest.Dir, RepairOptions{})
				torn = torn.Crash(rng.Uint64(), 50)
				what := fmt.Sprintf("%s, repair crashed", what)
				if err := Repair(torn, persisttest.Dir, RepairOptions{}); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if again, err := Check(torn, persisttest.Dir, CheckOptions{}); err != nil || !again.OK() {
					t.Fatalf("%s: after repair: %v %+v", what, err, again)
				}
				reopen(t, torn, opts, &model, what)
			}
			if err := Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { said = append(said, s) }}); err != nil {
				t.Fatalf("%s: repair: %v\n%s", what, err, strings.Join(said, "\n"))
			}
			repaired := len(said) > 0
			if repaired && off >= 0 {
				if kept := findBroken(t, disk); len(kept) == 0 {
					t.Fatalf("%s: nothing was kept:\n%s", what, strings.Join(said, "\n"))
				}
			}
			if again, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || !again.OK() {
				t.Fatalf("%s: after repair: %v %+v\n%s", what, err, again, strings.Join(said, "\n"))
			}
			checkDurable(t, disk, what)
			reopen(t, disk, opts, &model, what)
			persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { t.Errorf("%s: second repair: %s", what, s) }}))
			if leaks := disk.Leaks(); len(leaks) > 0 {
				t.Fatal("open files:", leaks)
			}
		}
	}
}

// checkDurable checks that a power failure takes nothing back of what a repair did and kept.
func checkDurable(t *testing.T, disk *vfs.Sim, what string) {
	t.Helper()
	left := disk.Crash(0, 0)
	if want, got := findBroken(t, disk), findBroken(t, left); !slices.Equal(want, got) {
		t.Fatalf("%s: kept %v, after a power failure %v", what, want, got)
	}
	if r, err := Check(left, persisttest.Dir, CheckOptions{}); err != nil || !r.OK() {
		t.Fatalf("%s: repaired, but after a power failure: %v %+v", what, err, r)
	}
	persisttest.Must(t, Repair(left, persisttest.Dir, RepairOptions{Say: func(s string) { t.Fatalf("%s: a repair after a power failure: %s", what, s) }}))
}

// reopen opens a repaired directory as the engine does, and checks that what it replays are true records and that new
// ones are found again.
func reopen(t *testing.T, disk *vfs.Sim, opts persist.LogOptions, m *persisttest.Model, what string) {
	t.Helper()
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	defer d.Close()
	opts.FS, opts.KnownDurable, opts.Create, opts.History = disk, d.KnownDurable(), false, format.History{}
	var from uint64
	if ms := d.Manifests(); len(ms) > 0 {
		from = ms[0].Replay
	}
	want := map[uint64]string{}
	for i, pos := range m.Pos {
		want[pos] = m.Text[i]
	}
	l, rec, err := persist.OpenLog(opts, from, func(pos uint64, r *format.Record) error {
		if want[pos] != persisttest.RecordText(r) {
			return fmt.Errorf("at %d: got %s, want %s", pos, persisttest.RecordText(r), want[pos])
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: open after repair: %v", what, err)
	}
	pos := l.AppendSet(9, 9, 9, 9)
	persisttest.Must(t, l.Commit(pos))
	persisttest.Must(t, l.Close())
	found := false
	l, _, err = persist.OpenLog(opts, rec.End, func(_ uint64, r *format.Record) error {
		found = found || r.Counter == 9
		return nil
	})
	persisttest.Must(t, err)
	if !found {
		t.Fatalf("%s: a record after the repair is lost", what)
	}
	persisttest.Must(t, l.Close())
}

func findBroken(t *testing.T, disk vfs.FS) (found []string) {
	for _, sub := range []string{"", "log", "rdb"} {
		names, err := disk.List(filepath.Join(persisttest.Dir, sub))
		persisttest.Must(t, err)
		for _, name := range names {
			if past.IsAside(name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// TestRepairNothing: a whole log without a snapshot needs no repair, and no word.
func TestRepairNothing(t *testing.T) {
	disk := persisttest.SampleLog(t)
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { t.Error("repair of what is whole:", s) }}))
}

// TestRepairManifests: both manifests damaged with a log from its beginning, or whole under wrong names: nothing is
// lost, also if the repair crashes anywhere and is run again.
func TestRepairManifests(t *testing.T) {
	model, clean, opts := persisttest.SampleDir(t)
	first, second := filepath.Join(persisttest.Dir, format.ManifestName(1)), filepath.Join(persisttest.Dir, format.ManifestName(2))
	swap := func(disk *vfs.Sim) {
		persisttest.Must(t, disk.Rename(first, first+"x"))
		persisttest.Must(t, disk.Rename(second, first))
		persisttest.Must(t, disk.Rename(first+"x", second))
		persisttest.Must(t, disk.SyncDir(persisttest.Dir))
	}
	for name, harm := range map[string]func(disk *vfs.Sim){
		"both damaged": func(disk *vfs.Sim) { persisttest.Damage(t, disk, first, 70); persisttest.Damage(t, disk, second, 70) },
		"swapped":      swap,
		"swapped, and the log's beginning gone": func(disk *vfs.Sim) {
			swap(disk)
			m, err := snapfile.ReadAnyManifest(disk, first)
			persisttest.Must(t, err)
			segs, err := logfile.Segments(disk, persisttest.Dir)
			persisttest.Must(t, err)
			for i := 0; i+1 < len(segs) && segs[i+1].Start <= m.Replay; i++ { // the newer one needs no more
				persisttest.Must(t, disk.Remove(segs[i].Path))
			}
			persisttest.Must(t, disk.SyncDir(format.LogDir(persisttest.Dir)))
		},
		"moved": func(disk *vfs.Sim) {
			persisttest.Must(t, disk.Remove(first))
			persisttest.Must(t, disk.Rename(second, filepath.Join(persisttest.Dir, format.ManifestName(9))))
			persisttest.Must(t, disk.SyncDir(persisttest.Dir))
		},
	} {
		base := clean.Kill()
		harm(base)
		for n, crashed := 0, true; crashed; n++ {
			disk := base.Kill()
			disk.CrashAt(n)
			err := Repair(disk, persisttest.Dir, RepairOptions{})
			if crashed = disk.Crashed(); !crashed {
				persisttest.Must(t, err)
			}
			disk = disk.Crash(uint64(n), 50)
			what := fmt.Sprintf("%s, crash at operation %d", name, n)
			var said []string
			if err := Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { said = append(said, s) }}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			r, err := Check(disk, persisttest.Dir, CheckOptions{})
			persisttest.Must(t, err)
			if !r.OK() || r.Log.End != model.Pos[len(model.Pos)-1] || name != "both damaged" && r.Manifests == 0 {
				t.Fatalf("%s: %+v\n%s", what, r, strings.Join(said, "\n"))
			}
			reopen(t, disk, opts, &model, what)
		}
	}
}

// TestRepairKeepsImages: where neither a snapshot nor the log's beginning can be used, what repair leaves is nearly
// empty. It says so, and the good images stay, also past the next start, which removes files that no manifest names.
func TestRepairKeepsImages(t *testing.T) {
	_, disk, opts := persisttest.SampleDir(t)
	for g := range uint64(2) {
		persisttest.Damage(t, disk, filepath.Join(persisttest.Dir, format.ManifestName(g+1)), 70)
	}
	names, err := disk.List(format.ImageDir(persisttest.Dir))
	persisttest.Must(t, err)
	images := len(names)
	segs, err := logfile.Segments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	persisttest.Damage(t, disk, segs[0].Path, 9)
	for n, crashed := 0, true; crashed; n++ {
		disk := disk.Kill()
		disk.CrashAt(n)
		_ = Repair(disk, persisttest.Dir, RepairOptions{})
		crashed = disk.Crashed()
		disk = disk.Crash(uint64(n), 50)
		var said []string
		persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{Say: func(s string) { said = append(said, s) }}))
		if text := strings.Join(said, "\n"); n == 0 && !strings.Contains(text, "LOST: ") {
			t.Errorf("repair does not say what is lost:\n%s", text)
		}
		d, err := persist.OpenDir(disk, persisttest.Dir)
		persisttest.Must(t, err)
		orphans, err := d.Orphans() // the engine removes them
		persisttest.Must(t, err)
		for _, path := range orphans {
			persisttest.Must(t, disk.Remove(path))
		}
		persisttest.Must(t, d.Close())
		if names, err := disk.List(format.ImageDir(persisttest.Dir)); err != nil || len(names) != images {
			t.Fatalf("crash at %d: of %d images %q are left, %v", n, images, names, err)
		}
		opts.FS, opts.History = disk, format.History{}
		l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
		persisttest.Must(t, err)
		persisttest.Must(t, l.Close())
	}
}

// TestManifestTooLarge: a file that is too large for a manifest is a damaged one, beside which others count.
func TestManifestTooLarge(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	path := filepath.Join(persisttest.Dir, format.ManifestName(2))
	f, err := disk.OpenRW(path)
	persisttest.Must(t, err)
	persisttest.Must(t, errors.Join(f.Truncate(format.MaxManifest+1), f.Close()))
	good, bad, err := snapfile.ReadManifests(disk, persisttest.Dir)
	if err != nil || len(good) != 1 || len(bad) != 1 || !errors.Is(bad[0], format.ErrCorrupt) {
		t.Errorf("got %d good ones, %v, %v", len(good), bad, err)
	}
	persisttest.Must(t, Repair(disk, persisttest.Dir, RepairOptions{}))
	if r, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || !r.OK() {
		t.Errorf("after repair: %+v, %v", r, err)
	}
}

// TestCheckEnds: a log whose last headers are damaged, one to all of them, is reported, not walked for ever.
func TestCheckEnds(t *testing.T) {
	_, clean, _ := persisttest.SampleDir(t)
	segs, err := logfile.Segments(clean, persisttest.Dir)
	persisttest.Must(t, err)
	for from := range segs {
		for to := from + 1; to <= len(segs); to++ {
			disk := clean.Kill()
			for _, seg := range segs[from:to] {
				persisttest.Damage(t, disk, seg.Path, 9)
			}
			r, err := Check(disk, persisttest.Dir, CheckOptions{})
			persisttest.Must(t, err)
			_, _, err = openLikeServer(disk)
			if r.OK() != (err == nil) {
				t.Errorf("headers %d to %d of %d damaged: Check finds %+v, a start says %v", from, to-1, len(segs), r.Problems, err)
			}
			if err := Repair(disk, persisttest.Dir, RepairOptions{}); err != nil {
				t.Fatalf("headers %d to %d of %d damaged: repair: %v", from, to-1, len(segs), err)
			}
			if r, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || !r.OK() {
				t.Errorf("headers %d to %d of %d damaged: after repair: %+v %v", from, to-1, len(segs), r, err)
			}
		}
	}
}

// TestCheckNoLog: a directory has lost its log, and has no snapshot and no claim. HISTORY tells it from a new directory.
func TestCheckNoLog(t *testing.T) {
	disk := vfs.NewSim()
	persisttest.Must(t, disk.MkdirAll(persisttest.Dir))
	if r, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || !r.OK() {
		t.Fatalf("a new directory: %+v, %v", r, err)
	}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}))
	if r, err := Check(disk, persisttest.Dir, CheckOptions{}); err != nil || r.OK() {
		t.Errorf("without its log: %+v, %v", r, err)
	}
}

// openLikeServer opens the log as a server does, and closes it.
func openLikeServer(disk *vfs.Sim) (uint64, persist.Recovery, error) {
	disk = disk.Kill()
	d, err := persist.OpenDir(disk, persisttest.Dir)
	if err != nil {
		return 0, persist.Recovery{}, err
	}
	defer d.Close()
	var from uint64
	if ms := d.Manifests(); len(ms) > 0 {
		from = ms[0].Replay
	}
	opts := persisttest.SmallLog(disk, persisttest.NewClock())
	opts.KnownDurable, opts.Create, opts.History = d.KnownDurable(), false, format.History{}
	l, rec, err := persist.OpenLog(opts, from, persisttest.Discard)
	if err == nil {
		err = l.Close()
	}
	return from, rec, err
}

func TestRepairRefuses(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	if err := Repair(disk, persisttest.Dir, RepairOptions{}); !errors.Is(err, vfs.ErrLocked) {
		t.Error("open directory: got", err)
	}
	persisttest.Must(t, d.Close())
	segs, err := logfile.Segments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	persisttest.Must(t, disk.Remove(segs[0].Path))
	generations, err := snapfile.Generations(disk, persisttest.Dir)
	persisttest.Must(t, err)
	for _, g := range generations {
		persisttest.Damage(t, disk, filepath.Join(persisttest.Dir, format.ManifestName(g)), 30)
	}
	if err := Repair(disk, persisttest.Dir, RepairOptions{}); !errors.Is(err, ErrUnrepairable) {
		t.Error("nothing to start from: got", err)
	}
	if broken := findBroken(t, disk); len(broken) > 0 {
		t.Error("changed although it cannot be repaired:", broken)
	}
}
