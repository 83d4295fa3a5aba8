// Scenario: the cost of columns that follow from additions: windows, columns that decay, and their top lists.

package counter

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// BenchmarkDerived adds 1 to posts, 64 at a time, in stores with no derived column, a window, a column that decays, and both with top=1000, in turns. It
// reports the medians of the processor time of an addition and their spread, bytes of the log of an addition, and bytes of memory for a post that
// has additions.
func BenchmarkDerived(b *testing.B) {
	names := []string{"none", "window", "decay", "top", "windowtop"}
	columns := []string{"", "add column weibo x window=1h/5m of=repost", "add column weibo x decay=6h of=repost*2+comment", "add column weibo x decay=6h of=repost*2+comment top=1000", "add column weibo x window=1h/5m of=repost top=1000"}
	stores := make([]*Store, len(names))
	var mids []uint64
	for k := range stores {
		s, err := Open(b.TempDir(), Options{SnapshotGrowth: -1, Manual: true, HashSeed: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if err := s.repl.AdmitCursors(); err != nil {
			b.Fatal(err)
		}
		if err := s.AlterScript(seedScript + columns[k]); err != nil {
			b.Fatal(err)
		}
		if k >= 3 && !s.tops.All() {
			b.Fatal("the list is not built")
		}
		mids = fillRows(b, s, *benchItems, 1, (*stream).together)
		stores[k] = s
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run := func(s *Store, targets []uint64) {
		bt := s.NewBatch()
		for i := 0; i < len(targets); i += 64 {
			if err := bt.Begin(); err != nil {
				b.Fatal(err)
			}
			def := bt.Schema().Counter("weibo")
			bt.Reset()
			for _, mid := range targets[i:min(i+64, len(targets))] {
				bt.Add(Op{Kind: OpAdd, Counter: def, Column: 1, Mid: mid, Arg: 1})
			}
			bt.Run()
			bt.End()
		}
		if err := bt.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	for k, s := range stores {
		before, position := s.Admin().Memory(), s.data.Log.Position()
		run(s, mids)
		b.ReportMetric(float64(s.Admin().Memory()-before)/float64(len(mids)), names[k]+"-B/post")
		b.ReportMetric(float64(s.data.Log.Position()-position)/float64(len(mids)), names[k]+"-B/add")
	}
	took := make([][]float64, len(stores))
	rng := rand.New(rand.NewPCG(1, 2))
	targets := make([]uint64, 64*256)
	now := time.Now()
	for range max(b.N/len(targets)/len(stores), 31) {
		for i := range targets {
			targets[i] = mids[rng.IntN(len(mids))]
		}
		now = now.Add(90 * time.Second)
		for k, s := range stores {
			if k > 0 {
				if err := s.Windows().Tick(now, nil); err != nil {
					b.Fatal(err)
				}
			}
			began := threadTime(b)
			run(s, targets)
			took[k] = append(took[k], float64(threadTime(b)-began)/float64(len(targets)))
		}
	}
	for k, name := range names {
		slices.Sort(took[k])
		n := len(took[k])
		b.ReportMetric(took[k][n/2], name+"-ns")
		b.ReportMetric(took[k][n/4], name+"-ns-p25")
		b.ReportMetric(took[k][n*3/4], name+"-ns-p75")
	}
	b.ReportMetric(0, "ns/op")
}
