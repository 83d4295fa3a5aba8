package past

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// filesOf returns the content of each file of a data directory, by its path before a set of files was put aside.
func filesOf(t *testing.T, disk vfs.FS, set uint64) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	add := func(path, as string) {
		text, err := vfs.ReadFile(disk, path, 1<<30)
		persisttest.Must(t, err)
		files[as] = text
	}
	names, err := disk.List(persisttest.Dir)
	persisttest.Must(t, err)
	for _, name := range names {
		as, n, aside := format.ParseDamaged(name)
		if !aside {
			as = name
			if isData(name) && slices.Contains(names, format.DamagedName(name, set)) {
				continue // written anew
			}
		} else if n != set {
			continue
		}
		path := filepath.Join(persisttest.Dir, name)
		if info, err := disk.Stat(path); err != nil || !info.IsDir() {
			add(path, as)
			continue
		}
		sub, err := disk.List(path)
		persisttest.Must(t, err)
		for _, file := range sub {
			add(filepath.Join(path, file), as+"/"+file)
		}
	}
	for _, note := range []string{format.HealingName, format.LockName} {
		delete(files, note)
	}
	return files
}

// TestGiveUpCrash sets a directory's files aside and crashes at every operation, with and without a power failure, then
// again while the start goes on with it: no byte is lost, and the directory is either as it was or is not served.
func TestGiveUpCrash(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	base, _, _, _, _ := installed(t)
	persisttest.Must(t, vfs.WriteFileAtomic(base, persisttest.Dir+"/node.json", []byte("{}\n")))
	base = base.Crash(1, 100) // what it has is durable
	want := filesOf(t, base, 1)
	judge := func(disk *vfs.Sim, what string) bool {
		t.Helper()
		if err := FinishBegun(disk, persisttest.Dir); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		h, err := ReadHealing(disk, persisttest.Dir)
		persisttest.Must(t, err)
		got := filesOf(t, disk, 1)
		maps.DeleteFunc(got, func(name string, _ []byte) bool { return strings.HasSuffix(name, format.TempSuffix) })
		if !maps.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%s: files %v, want %v", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if h == nil {
			return false
		}
		l, err := logfile.ReadLineage(disk, persisttest.Dir)
		segs, serr := logfile.ListSegments(disk, persisttest.Dir)
		if err = errors.Join(err, serr); err != nil || h.Aside || h.Reason != "a bad page" || h.Set != 1 || !l.Replica || len(l.Terms) != 0 || len(segs) != 0 {
			t.Fatalf("%s: %+v, %+v, %d segments, %v", what, h, l, len(segs), err)
		}
		return true
	}
	giveUp := func(disk *vfs.Sim) error {
		return GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7})
	}
	whole := base.Kill()
	before := whole.Ops()
	persisttest.Must(t, giveUp(whole))
	ops := whole.Ops() - before
	if !judge(whole, "no crash") || ops < 15 {
		t.Fatalf("%d operations", ops)
	}
	seed := seed.Of(t)
	counts := map[bool]int{}
	for n := range ops {
		s := base.Kill()
		s.CrashAt(s.Ops() + n)
		if err := giveUp(s); err == nil || !s.Crashed() {
			t.Fatalf("operation %d: %v", n, err)
		}
		counts[judge(s.Kill(), fmt.Sprintf("killed at operation %d", n))]++
		for draw := range uint64(12) {
			counts[judge(s.Crash(seed+100*uint64(n)+draw, 50), fmt.Sprintf("power failure at operation %d, draw %d", n, draw))]++
		}
		for _, keep := range []int{0, 50, 100} {
			disk := s.Crash(seed+uint64(n), keep)
			for k := 0; ; k++ {
				twice := disk.Kill()
				twice.CrashAt(twice.Ops() + k)
				if err := FinishBegun(twice, persisttest.Dir); err != nil && !twice.Crashed() {
					t.Fatalf("power failure at operation %d, %d %% kept: %v", n, keep, err)
				}
				crashed := twice.Crashed()
				counts[judge(twice.Crash(seed+uint64(k), keep), fmt.Sprintf("power failure at operation %d, %d %% kept, and at operation %d of the start", n, keep, k))]++
				if !crashed || testing.Short() {
					break
				}
			}
		}
	}
	if counts[true] < 10 || counts[false] < 3 {
		t.Errorf("outcomes %v: want some of both", counts)
	}
	t.Logf("%d operations, outcomes %v", ops, counts)
	if leaks := whole.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// TestHealed: when the node is whole, the newest set of damaged files stays and earlier ones go. Until then the first one of the healing stays too.
func TestHealed(t *testing.T) {
	disk, _, _, _, _ := installed(t)
	want := filesOf(t, disk, 1)
	for n := range uint64(3) {
		persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "again", Since: 7}))
		if h, err := ReadHealing(disk, persisttest.Dir); err != nil || h == nil || h.Set != n+1 {
			t.Fatalf("%+v, %v, want set %d", h, err, n+1)
		}
	}
	if got := filesOf(t, disk, 1); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("files %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if got := damagedSets(t, disk); !slices.Equal(got, []uint64{1, 3}) { // set 2 is a part of a copy
		t.Errorf("sets %d are kept, want 1 and 3", got)
	}
	kept, err := Healed(disk, persisttest.Dir, false)
	persisttest.Must(t, err)
	if h, err := ReadHealing(disk, persisttest.Dir); h != nil || err != nil || kept == 0 {
		t.Errorf("%+v, %v, %d kept", h, err, kept)
	}
	// Set 2 was a part of a copy. Set 1 may hold the last copy of a change.
	if got := damagedSets(t, disk); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("sets %d are left, want 1 and 3", got)
	}
	persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "another damage", Since: 8}))
	if _, err := Healed(disk, persisttest.Dir, false); err != nil {
		t.Fatal(err)
	}
	if got := damagedSets(t, disk); !slices.Equal(got, []uint64{4}) {
		t.Errorf("sets %d are left behind another healing, want 4", got)
	}
}

// damagedSets returns the numbers of the sets of a directory.
func damagedSets(t *testing.T, disk vfs.FS) (sets []uint64) {
	t.Helper()
	names, err := disk.List(persisttest.Dir)
	persisttest.Must(t, err)
	for _, name := range names {
		if _, n, ok := format.ParseDamaged(name); ok && !slices.Contains(sets, n) {
			sets = append(sets, n)
		}
	}
	slices.Sort(sets)
	return sets
}

// TestHealingDamaged: a HEALING that cannot be read sets the files aside once more, and keeps those of before.
func TestHealingDamaged(t *testing.T) {
	disk, _, _, _, _ := installed(t)
	want := filesOf(t, disk, 1)
	persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
	persisttest.Must(t, vfs.WriteFileAtomic(disk, format.HealingPath(persisttest.Dir), []byte("counterd healing 1\n")))
	if _, err := ReadHealing(disk, persisttest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	persisttest.Must(t, FinishBegun(disk, persisttest.Dir))
	h, err := ReadHealing(disk, persisttest.Dir)
	if err != nil || h == nil || h.Set != 2 || h.First != 0 || h.Aside {
		t.Fatalf("%+v, %v, want set 2", h, err)
	}
	if got := filesOf(t, disk, 1); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("files %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if _, err := Healed(disk, persisttest.Dir, false); err != nil {
		t.Fatal(err)
	}
	if got := damagedSets(t, disk); !slices.Equal(got, []uint64{1, 2}) { // nobody knows which set was the first
		t.Errorf("sets %d are left, want 1 and 2", got)
	}
}

// TestGiveUpTakesNotes: the notes of how far the old log was confirmed and durable go with it: a log that begins anew has neither.
func TestGiveUpTakesNotes(t *testing.T) {
	disk, _, _, _, _ := installed(t)
	for _, name := range []string{ConfirmedName, format.ClaimName, "node.json", "PRIMARY"} {
		persisttest.Must(t, vfs.WriteFileAtomic(disk, filepath.Join(persisttest.Dir, name), []byte(name)))
	}
	persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
	names, err := disk.List(persisttest.Dir)
	persisttest.Must(t, err)
	for name, stays := range map[string]bool{ConfirmedName: false, format.ClaimName: false, "node.json": true, "PRIMARY": true} {
		if slices.Contains(names, name) != stays || slices.Contains(names, format.DamagedName(name, 1)) == stays {
			t.Errorf("%s: want %v that it stays, got %v", name, stays, names)
		}
	}
}

// TestHealedKeepsWhatStays: an old set that cannot be removed does not keep the node from being whole.
func TestHealedKeepsWhatStays(t *testing.T) {
	disk, _, _, _, _ := installed(t)
	persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
	folder := filepath.Join(persisttest.Dir, format.DamagedName(format.LogDirName, 1), "lost+found")
	persisttest.Must(t, disk.MkdirAll(folder))
	persisttest.Must(t, vfs.WriteFileAtomic(disk, filepath.Join(folder, "1"), []byte("of a person")))
	if _, err := Healed(disk, persisttest.Dir, false); err != nil {
		t.Fatal(err)
	}
	persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "again", Since: 7}))
	kept, err := Healed(disk, persisttest.Dir, false)
	persisttest.Must(t, err)
	if h, err := ReadHealing(disk, persisttest.Dir); h != nil || err != nil || kept < 2 {
		t.Errorf("%+v, %v, %d kept", h, err, kept)
	}
}
