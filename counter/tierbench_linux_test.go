// Scenario: the cost of hot and cold reads.

package counter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkTier reads all three columns of random items, hot and cold alternately, a millisecond each, and reports the
// medians and quartiles of the processor time an item takes: other programs on the machine disturb both alike.
//
//	rows=posts       86 % of the rows are all zero, as of real posts
//	rows=unrelated   each column is zero or not for itself, 39 % of the rows have something: the worst for cold files
//	pages=cached     all pages of the files are in the cache
//	pages=resident   none is, all are in the kernel's: each is copied and its checksum verified
func BenchmarkTier(b *testing.B) {
	for name, row := range map[string]func(*stream) [3]uint64{"posts": (*stream).together, "unrelated": (*stream).row} {
		b.Run("rows="+name, func(b *testing.B) { benchTier(b, row) })
	}
}

func benchTier(b *testing.B, row func(*stream) [3]uint64) {
	var stores [2]*Store
	var mids []uint64
	for i := range stores {
		s, err := Open(b.TempDir(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		s.tiers.Stop() // or the ranges would be promoted
		if err := s.AlterScript(seedScript); err != nil {
			b.Fatal(err)
		}
		mids = fillRows(b, s, *benchItems, 1, row)
		stores[i] = s
	}
	mids = mids[:len(mids)*9/10] // the newest are not demoted
	demoteAll(b, stores[1])
	for _, page := range []int{1, 20} {
		for _, pages := range []string{"cached", "resident"} {
			b.Run(fmt.Sprintf("batch=%d/pages=%s", page, pages), func(b *testing.B) {
				stores[1].data.Cache.SetLimit(1 << 30)
				if pages == "resident" {
					stores[1].data.Cache.SetLimit(0)
				}
				benchAlternately(b, stores, mids, page)
			})
		}
	}
}

// demoteAll makes all blocks cold but the open one.
func demoteAll(b *testing.B, s *Store) {
	for {
		bt := s.NewBatch()
		_ = bt.Begin()
		var lo []uint64
		NewReader(bt).Blocks(func(i BlockInfo) bool {
			if i.Tier == TierHot && !i.Open {
				lo = append(lo, i.Lo)
			}
			return true
		})
		bt.End()
		if len(lo) == 0 {
			return
		}
		for _, mid := range lo {
			if err := s.Admin().Demote("weibo", mid); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchAlternately(b *testing.B, stores [2]*Store, mids []uint64, page int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const slice = 4000 // items
	rng := rand.New(rand.NewPCG(1, 1))
	var took [2][]float64
	batches := [2]*Batch{stores[0].NewBatch(), stores[1].NewBatch()}
	order := make([]uint64, slice)
	measure := func(k int) float64 {
		bt := batches[k]
		for i := range order {
			order[i] = mids[rng.IntN(len(mids))]
		}
		began := threadTime(b)
		for i := 0; i < slice; i += page {
			_ = bt.Begin()
			c := bt.Schema().Counters()[0]
			bt.Reset()
			for _, mid := range order[i : i+page] {
				op := bt.Next()
				op.Kind, op.Counter, op.Mid = OpRead, c, mid
			}
			bt.Run()
			bt.End()
		}
		return float64(threadTime(b)-began) / slice
	}
	for range 100 { // fills the cache of pages
		measure(1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range max(b.N/slice, 1) {
		for k := range took {
			took[k] = append(took[k], measure(k))
		}
	}
	for k, name := range []string{"hot", "cold"} {
		slices.Sort(took[k])
		n := len(took[k])
		b.ReportMetric(took[k][n/4], name+"-p25-ns")
		b.ReportMetric(took[k][n/2], name+"-p50-ns")
		b.ReportMetric(took[k][n*3/4], name+"-p75-ns")
	}
	b.ReportMetric(took[1][len(took[1])/2]/took[0][len(took[0])/2], "cold/hot")
}

// threadTime is the processor time of this thread in ns.
func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}
