// Scenario: the memory and the files of each counter are counted.

package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/persist/vfs"
)

// TestUsage: what counters take, one by one, adds up to what Tiers counts of all, and a range that cannot be read is
// seen.
func TestUsage(t *testing.T) {
	const dir = "data"
	sim := vfs.NewSim()
	opts := Options{BlockItems: 64, FS: sim, Manual: true}
	s := openDir(t, dir, opts, "add counter a\nadd column a v hint=2 max=40 suffix=v\nadd counter b\nadd column b w hint=8 max=8 suffix=w\nadd counter gone\ndrop counter gone")
	const n = 3 * tier.UsageStep // blocks of a may be as many, so that it is counted in several steps
	for i := range n {
		if err := s.Set(fmt.Sprintf("%d.v", i*1000), uint64(i)<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set("7.w", 1); err != nil {
		t.Fatal(err)
	}
	for mid := uint64(0); mid < n*1000/2; mid += 10_000 {
		if err := s.Admin().Demote("a", mid); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
	for i := range n / 8 {
		if _, err := s.Incr(fmt.Sprintf("%d.v", i*1000), 1); err != nil {
			t.Fatal(err)
		}
	}
	add := func(all []Usage) (sum TierStats) {
		for _, u := range all {
			sum.HotItems += u.HotItems
			sum.ColdItems += u.ColdItems
			sum.HotBlocks += u.HotBlocks
			sum.ColdBlocks += u.ColdBlocks
			sum.HotBytes += u.HotBytes
			sum.ColdBytes += u.ColdBytes
			sum.IndexBytes += u.IndexBytes
			sum.OverlayItems += u.OverlayItems
			sum.OverlayBytes += u.OverlayBytes
		}
		return sum
	}
	all := s.Admin().Usage()
	if len(all) != 2 || all[0].Counter != "a" || all[1].Counter != "b" || all[1].HotItems != 1 || all[1].ColdBlocks != 0 {
		t.Errorf("got %+v, want counters a and b", all)
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	want := s.Admin().Tiers(b)
	b.End()
	got := add(all)
	for _, st := range []*TierStats{&want, &got} {
		*st = TierStats{HotItems: st.HotItems, ColdItems: st.ColdItems, HotBlocks: st.HotBlocks, ColdBlocks: st.ColdBlocks, HotBytes: st.HotBytes,
			ColdBytes: st.ColdBytes, IndexBytes: st.IndexBytes, OverlayItems: st.OverlayItems, OverlayBytes: st.OverlayBytes}
	}
	if got != want || got.HotItems+got.ColdItems != n+1 || got.ColdBlocks == 0 || got.OverlayItems == 0 {
		t.Errorf("added up %+v, want %+v", got, want)
	}
	if a := all[0]; a.OverlayBlocks == 0 || a.OverlayBlocks > a.ColdBlocks || a.Unusable != 0 || a.Overflows == 0 {
		t.Errorf("got %+v", a)
	}
	if st := s.Admin().TierCounts(); st.Demotions == 0 || st.Demoting <= 0 || st.HotItems != 0 {
		t.Errorf("got %+v", st)
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if kept := s.Admin().Snapshots(); kept.OldestTime.IsZero() || kept.OldestTime.After(kept.LastTime) {
		t.Errorf("the oldest snapshot is of %v, the newest of %v", kept.OldestTime, kept.LastTime)
	}
	var file string
	for _, f := range s.scrubber.Files() {
		file = f.Name()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if all := s.Admin().Usage(); len(all) != 0 {
		t.Errorf("a closed store has %+v", all)
	}
	if err := sim.Remove(file); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, opts, "")
	if a := s.Admin().Usage()[0]; a.Unusable != 1 {
		t.Errorf("one file is missing: got %+v", a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkUsage measures the counting of a block.
func BenchmarkUsage(b *testing.B) {
	s := openDir(b, b.TempDir(), Options{BlockItems: 64, Manual: true}, "add counter a\nadd column a v hint=2 max=40 suffix=v")
	for i := range 1 << 16 {
		if err := s.Set(fmt.Sprintf("%d.v", i*1000), 1); err != nil {
			b.Fatal(err)
		}
	}
	blocks := 0
	for b.Loop() {
		u := s.Admin().Usage()[0]
		blocks += int(u.HotBlocks + u.ColdBlocks)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(blocks), "ns/block")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// TestUsageOfWindows: the counts of a derived column are counted apart from the posts of its counter. They were counted as posts of a counter that
// there is not.
func TestUsageOfWindows(t *testing.T) {
	s, err := Open("", Options{Manual: true, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript("add counter a\nadd column a v hint=8 suffix=v\nadd column a v1h window=1h/5m of=v suffix=vh"); err != nil {
		t.Fatal(err)
	}
	for mid := range 5 {
		if err := s.Set(fmt.Sprintf("%d.v", mid), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Incr("3.v", 1); err != nil {
		t.Fatal(err)
	}
	all := s.Admin().Usage()
	if len(all) != 2 || all[0].Counter != "a" || all[0].Column != "" || all[0].HotItems != 5 || all[1].Counter != "a" || all[1].Column != "v1h" || all[1].HotItems != 1 || all[1].HotBytes == 0 {
		t.Errorf("got %+v", all)
	}
	for at, want := range map[int64]time.Duration{1_800_000_000: 0, 1_800_000_299: 0, 1_800_000_310: 10 * time.Second} {
		if got, ok := s.Windows().Overdue(time.Unix(at, 0)); !ok || got != want {
			t.Errorf("at %d a tick is overdue for %v, %v, want %v", at, got, ok, want)
		}
	}
}
