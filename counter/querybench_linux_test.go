// Scenario: the cost of queries.

package counter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/schema"
)

// queryStores are a store in memory, one with all blocks but the last in files, and the same posts as arrays.
func queryStores(b *testing.B) (stores [2]*Store, arrays [4][]uint64) {
	for i := range stores {
		s, err := Open(b.TempDir(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		s.tiers.Stop() // or the ranges would be promoted
		if err := s.AlterScript(seedScript); err != nil {
			b.Fatal(err)
		}
		fillRows(b, s, *benchItems, 1, (*stream).together)
		stores[i] = s
	}
	demoteAll(b, stores[1])
	if err := stores[0].Find(query.Query{Counter: stores[0].Schema().Counter("weibo"), To: schema.MaxMid}, func(mid uint64, vals []uint64) bool {
		arrays[0] = append(arrays[0], mid)
		for c, v := range vals {
			arrays[1+c] = append(arrays[1+c], v)
		}
		return true
	}); err != nil {
		b.Fatal(err)
	}
	return stores, arrays
}

// BenchmarkQuery finds posts with conditions that few, some or all of them meet, hot, cold, and in a plain loop over
// arrays of 8 bytes a value, one after the other. It reports the medians of the processor time a post of the range
// takes, and the share of pages read.
func BenchmarkQuery(b *testing.B) {
	stores, arrays := queryStores(b)
	pages := 0
	for _, blk := range stores[1].data.Spaces[1][0].Dir.Load().Blocks {
		if blk.Cold != nil {
			pages += blk.Cold.File.Pages()
		}
	}
	for _, test := range []struct {
		name   string
		lo, hi uint64 // of comment
	}{{"rare", 200_000, math.MaxUint64}, {"large", 1000, math.MaxUint64}, {"few", 7, 8}, {"some", 1, math.MaxUint64}, {"all", 0, math.MaxUint64}} {
		b.Run("rows="+test.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [3][]float64
			var found [3]int
			read := 0
			for range max(b.N/len(arrays[0]), 5) {
				for k, s := range stores {
					q := query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid}
					if test.lo > 0 {
						q.Where = []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: test.lo}, {Column: 0, Op: query.LessEqual, Value: test.hi}}
					}
					f, err := query.NewFind(q)
					if err != nil {
						b.Fatal(err)
					}
					f.Search.Pause = func() {} // it takes long in a goroutine that keeps its thread
					began := threadTime(b)
					found[k] = 0
					if err := s.steps(viewing(f.Step), func() bool { found[k] += f.Rows().Len(); return true }); err != nil {
						b.Fatal(err)
					}
					took[k] = append(took[k], float64(threadTime(b)-began)/float64(len(arrays[0])))
					read = f.Search.Read
				}
				began := threadTime(b)
				found[2] = 0
				out := make([]uint64, 0, 4*query.StepRows)
				for i, v := range arrays[1] {
					if v >= test.lo && v <= test.hi {
						if len(out) == cap(out) {
							found[2] += len(out) / 4
							out = out[:0]
						}
						out = append(out, arrays[0][i], v, arrays[2][i], arrays[3][i])
					}
				}
				found[2] += len(out) / 4
				took[2] = append(took[2], float64(threadTime(b)-began)/float64(len(arrays[0])))
			}
			if found[0] != found[2] || found[1] != found[2] {
				b.Fatalf("found %v", found)
			}
			for k, name := range []string{"hot-ns", "cold-ns", "arrays-ns"} {
				slices.Sort(took[k])
				b.ReportMetric(took[k][len(took[k])/2], name)
			}
			b.ReportMetric(float64(found[0])/float64(len(arrays[0])), "found")
			b.ReportMetric(float64(read)/float64(pages), "pages")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkNewest finds the newest posts of a single store and of a store made of groups of hash slots, in turns. It reports the medians of
// the processor time of a query in microseconds.
func BenchmarkNewest(b *testing.B) {
	const posts = 1_000_000
	var stores [2]*Store
	for i := range stores {
		s, err := Open("", Options{SlotGroups: i == 1})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		s.tiers.Stop()
		if err := s.AlterScript(seedScript); err != nil {
			b.Fatal(err)
		}
		fillRows(b, s, posts, 1, (*stream).together)
		stores[i] = s
	}
	for _, limit := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [2][]float64
			for range max(b.N, 15) {
				for k, s := range stores {
					f, err := query.NewFind(query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid, Desc: true, Limit: limit})
					if err != nil {
						b.Fatal(err)
					}
					f.Search.Pause = func() {}
					began, found := threadTime(b), 0
					if err := s.steps(viewing(f.Step), func() bool { found += f.Rows().Len(); return true }); err != nil || found != limit {
						b.Fatal(found, err)
					}
					took[k] = append(took[k], float64(threadTime(b)-began)/1000)
				}
			}
			for k, name := range []string{"one-us", "groups-us"} {
				slices.Sort(took[k])
				b.ReportMetric(took[k][len(took[k])/2], name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTop takes the 100 posts with the most comments: in milliseconds of processor time, with the share of blocks
// and pages that it reads.
func BenchmarkTop(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.tiers.Stop()
	if err := s.AlterScript(seedScript); err != nil {
		b.Fatal(err)
	}
	fillRows(b, s, *benchItems, 1, (*stream).together)
	for _, tier := range []string{"hot", "cold"} {
		if tier == "cold" {
			demoteAll(b, s)
		}
		b.Run(fmt.Sprintf("posts=%d/tier=%s", *benchItems, tier), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			pages := 0
			blocks := s.data.Spaces[1][0].Dir.Load().Blocks
			for _, blk := range blocks {
				if blk.Cold != nil {
					pages += blk.Cold.File.Pages()
				}
			}
			began := threadTime(b)
			var top *query.Top
			parts := 0
			for range b.N {
				var err error
				if top, err = query.NewTop(query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid}, 0, 100); err != nil {
					b.Fatal(err)
				}
				if err := s.steps(viewing(top.Step), func() bool { parts = len(top.Parts); return true }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(threadTime(b)-began)/float64(b.N)/1e6, "ms")
			b.ReportMetric(float64(len(blocks)-parts)/float64(len(blocks)), "blocks")
			b.ReportMetric(float64(top.Search.Read)/float64(max(pages, 1)), "pages")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkQueryTail reads random posts one at a time: a while alone, a while beside a goroutine that computes as long
// at a time as a step takes, and a while beside one that finds all posts again and again, in turns. It reports the
// quantiles of the time a read takes, in microseconds.
func BenchmarkQueryTail(b *testing.B) {
	stores, arrays := queryStores(b)
	for k, tier := range []string{"hot", "cold"} {
		b.Run("tier="+tier, func(b *testing.B) {
			s := stores[k]
			def := s.Schema().Counter("weibo")
			var mode atomic.Int32
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() {
					switch mode.Load() {
					case 0:
						time.Sleep(time.Millisecond)
						continue
					case 1:
						for began := time.Now(); time.Since(began) < query.StepTime; {
						}
						runtime.Gosched()
						continue
					}
					f, _ := query.NewFind(query.Query{Counter: def, To: schema.MaxMid, Where: []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: 1}}})
					_ = s.steps(viewing(f.Step), func() bool { runtime.Gosched(); return !stop.Load() && mode.Load() == 2 })
				}
			}()
			rng := rand.New(rand.NewPCG(1, 1))
			var took [3][]float64
			bt := s.NewBatch()
			for i := range b.N {
				if i%1000 == 0 {
					mode.Store(int32(i / 1000 % 3))
				}
				began := time.Now()
				_ = bt.Begin()
				bt.Reset()
				bt.Add(Op{Kind: OpRead, Counter: def, Mid: arrays[0][rng.IntN(len(arrays[0]))]})
				bt.Run()
				bt.End()
				if i%1000 > 50 {
					took[i/1000%3] = append(took[i/1000%3], float64(time.Since(began).Nanoseconds())/1e3)
				}
				for spin := time.Now(); time.Since(spin) < 5*time.Microsecond; { // requests do not follow each other at once
				}
			}
			stop.Store(true)
			<-done
			for k, name := range []string{"alone", "computing", "finding"} {
				if slices.Sort(took[k]); len(took[k]) > 0 {
					b.ReportMetric(took[k][len(took[k])/2], name+"-p50-us")
					b.ReportMetric(took[k][len(took[k])*999/1000], name+"-p999-us")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
