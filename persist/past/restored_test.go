package past

import (
	"bytes"
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
	"github.com/counterd/counterd/persist/vfs"
)

// TestRestoredCrash puts restored data in the place of a damaged directory's, and crashes at every operation, with and without a power
// failure, and again at every operation of the start behind it: the directory is as it was, or has all restored data, and the
// damaged files are all there.
func TestRestoredCrash(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	base, _, _, _, _ := installed(t)
	lineage := format.Lineage{Terms: []format.Term{{ReplID: format.NewReplID(), Epoch: 9, Start: 77}}}
	restored := map[string][]byte{format.HistoryName: lineage.AppendText(nil), "log/00000000000000000000.aof": []byte("log"), "rdb/1-1.hot": []byte("image"), "MANIFEST-9": []byte("manifest")}
	base = base.Crash(1, 100)
	want := filesOf(t, base, 1)
	for _, dir := range []string{"log", "rdb"} {
		name, ok := RestoredName(dir)
		if !ok {
			t.Fatalf("%s is no data", dir)
		}
		persisttest.Must(t, base.MkdirAll(filepath.Join(persisttest.Dir, name)))
	}
	for path, text := range restored {
		name, rest, _ := strings.Cut(path, "/")
		name, _ = RestoredName(name)
		persisttest.Must(t, vfs.WriteFileAtomic(base, filepath.Join(persisttest.Dir, name, rest), text))
	}
	persisttest.Must(t, base.SyncDir(persisttest.Dir))
	base = base.Crash(1, 100)
	giveUp := func(disk *vfs.Sim) error {
		return GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7, Lead: lineage.Terms[0].ReplID})
	}
	placed := func(disk *vfs.Sim, what string) {
		t.Helper()
		for path, text := range restored {
			there, err := vfs.ReadFile(disk, filepath.Join(persisttest.Dir, path), 1<<20)
			if err != nil || !bytes.Equal(there, text) {
				t.Fatalf("%s: %s has %q, %v, want %q", what, path, there, err, text)
			}
		}
	}
	judge := func(disk *vfs.Sim, what string) bool {
		t.Helper()
		if text, err := vfs.ReadFile(disk, format.LineagePath(persisttest.Dir), 1<<20); err == nil && bytes.Equal(text, lineage.AppendText(nil)) {
			placed(disk, what+", before the start") // HISTORY comes last
		}
		if err := FinishBegun(disk, persisttest.Dir); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := filesOf(t, disk, 1)
		h, err := ReadHealing(disk, persisttest.Dir)
		persisttest.Must(t, err)
		if h != nil {
			placed(disk, what)
			if _, was := want["MANIFEST-9"]; !was {
				delete(got, "MANIFEST-9")
			}
		}
		maps.DeleteFunc(got, func(name string, _ []byte) bool { return strings.HasSuffix(name, format.TempSuffix) })
		if !maps.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%s: files %v, want %v", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		return h != nil
	}
	whole := base.Kill()
	before := whole.Ops()
	persisttest.Must(t, giveUp(whole))
	ops := whole.Ops() - before
	if !judge(whole, "no crash") {
		t.Fatal("it is not healing")
	}
	counts := map[bool]int{}
	for n := range ops {
		s := base.Kill()
		s.CrashAt(s.Ops() + n)
		if err := giveUp(s); err == nil || !s.Crashed() {
			t.Fatalf("operation %d: %v", n, err)
		}
		counts[judge(s.Kill(), fmt.Sprintf("killed at operation %d", n))]++
		for draw := range uint64(6) {
			disk := s.Crash(seed.Of(t)+100*uint64(n)+draw, int(20*draw))
			for k := 0; ; k++ {
				twice := disk.Kill()
				twice.CrashAt(twice.Ops() + k)
				if err := FinishBegun(twice, persisttest.Dir); err != nil && !twice.Crashed() {
					t.Fatalf("power failure at operation %d, draw %d: %v", n, draw, err)
				}
				crashed := twice.Crashed()
				counts[judge(twice.Crash(draw+uint64(k), 50), fmt.Sprintf("power failure at operation %d, draw %d, and at operation %d of the start", n, draw, k))]++
				if !crashed || testing.Short() {
					break
				}
			}
		}
	}
	for n, crashed := 0, true; crashed; n++ { // the node is whole soon: HEALING is removed, which speaks for the restored data until then
		s := whole.Kill()
		s.CrashAt(s.Ops() + n)
		_, err := Healed(s, persisttest.Dir, true)
		if crashed = s.Crashed(); crashed == (err == nil) {
			t.Fatalf("Healed, operation %d: %v", n, err)
		}
		for draw := range uint64(12) {
			disk := s.Crash(seed.Of(t)+100*uint64(n)+draw, 50)
			persisttest.Must(t, FinishBegun(disk, persisttest.Dir))
			placed(disk, fmt.Sprintf("Healed, power failure at operation %d, draw %d", n, draw))
		}
	}
	if counts[true] < 10 || counts[false] < 3 {
		t.Errorf("outcomes %v: want some of both", counts)
	}
	t.Logf("%d operations, outcomes %v", ops, counts)
}
