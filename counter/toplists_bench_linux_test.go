// Scenario: the cost of top lists, and the time that they save.

package counter

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/schema"
)

// BenchmarkTopList finds the top 100 of a column by a look at all posts, and by its list, in turns. It reports the medians of the processor
// time of a query in microseconds, and the time of building the list.
func BenchmarkTopList(b *testing.B) {
	s, err := Open("", Options{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript + "alter column weibo repost top=1000\n"); err != nil {
		b.Fatal(err)
	}
	fillRows(b, s, *benchItems, 1, (*stream).together)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(b)
	if !s.tops.All() {
		b.Fatal("the list is not built")
	}
	built := threadTime(b) - began
	var took [2][]float64
	for range max(b.N, 15) {
		for k := range took {
			t, err := query.NewTop(query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid}, 1, 100)
			if err != nil {
				b.Fatal(err)
			}
			if k == 0 {
				t.Scan()
			}
			began := threadTime(b)
			if err := s.steps(func(bt *Batch) (bool, error) { return t.Step((*core.View)(bt)) }, func() bool { return true }); err != nil {
				b.Fatal(err)
			}
			took[k] = append(took[k], float64(threadTime(b)-began)/1e3)
			if t.Rows().Len() != 100 {
				b.Fatalf("%d rows", t.Rows().Len())
			}
		}
	}
	for k, name := range []string{"scan-us", "list-us"} {
		slices.Sort(took[k])
		b.ReportMetric(took[k][len(took[k])/2], name)
		b.ReportMetric(took[k][len(took[k])*9/10], name+"-p90")
	}
	b.ReportMetric(float64(built)/1e6, "build-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTopListAdd adds 1 to posts, 64 at a time, in stores without and with top=1000 on the column, in turns: to posts of which few are in the
// list, and to posts that are all in it. It reports the medians of the processor time of an addition.
func BenchmarkTopListAdd(b *testing.B) {
	var stores [2]*Store
	var mids []uint64
	for k := range stores {
		s, err := Open(b.TempDir(), Options{SnapshotGrowth: -1, Manual: true, HashSeed: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if err := s.AlterScript(seedScript); err != nil {
			b.Fatal(err)
		}
		mids = fillRows(b, s, *benchItems, 1, (*stream).together)
		stores[k] = s
	}
	if err := stores[1].AlterScript("alter column weibo repost top=1000"); err != nil {
		b.Fatal(err)
	}
	if !stores[1].tops.All() {
		b.Fatal("the list is not built")
	}
	rows, err := stores[1].Top(Query{Counter: stores[1].Schema().Counter("weibo"), To: schema.MaxMid}, 1, 1000)
	if err != nil {
		b.Fatal(err)
	}
	var best []uint64
	for i := range rows.Len() {
		mid, _ := rows.At(i)
		best = append(best, mid)
	}
	for name, among := range map[string][]uint64{"any": mids, "listed": best} {
		b.Run("posts="+name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [2][]float64
			rng := rand.New(rand.NewPCG(1, 2))
			targets := make([]uint64, 64*256)
			for range max(b.N/len(targets)/2, 21) {
				for i := range targets {
					targets[i] = among[rng.IntN(len(among))]
				}
				for _, k := range []int{0, 1} {
					bt := stores[k].NewBatch()
					began := threadTime(b)
					for i := 0; i < len(targets); i += 64 {
						if err := bt.Begin(); err != nil {
							b.Fatal(err)
						}
						def := bt.Schema().Counter("weibo")
						for _, mid := range targets[i : i+64] {
							*bt.Next() = Op{Kind: OpAdd, Counter: def, Column: 1, Mid: mid, Arg: 1}
						}
						bt.Run()
						bt.End()
						bt.Reset()
						if err := bt.Commit(); err != nil {
							b.Fatal(err)
						}
					}
					took[k] = append(took[k], float64(threadTime(b)-began)/float64(len(targets)))
				}
			}
			for k, name := range []string{"without-ns", "with-ns"} {
				slices.Sort(took[k])
				b.ReportMetric(took[k][len(took[k])/2], name)
				b.ReportMetric(took[k][len(took[k])/10], name+"-p10")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkListed asks for the top 100 of a column and of a window of time, and for the posts above the 500th of each, by a look at the posts and by the
// lists, in turns. A tenth of the posts have additions in the window. It reports the medians of the processor time of a query in microseconds.
func BenchmarkListed(b *testing.B) {
	s, err := Open("", Options{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript + "add column weibo repost1h window=1h/5m of=repost top=1000\nalter column weibo repost top=1000\n"); err != nil {
		b.Fatal(err)
	}
	mids := fillRows(b, s, *benchItems, 1, (*stream).together)
	rng := rand.New(rand.NewPCG(1, 2))
	bt, def := s.NewBatch(), s.Schema().Counter("weibo")
	for range len(mids) / 640 {
		if err := bt.Begin(); err != nil {
			b.Fatal(err)
		}
		for range 64 {
			*bt.Next() = Op{Kind: OpAdd, Counter: def, Column: 1, Mid: mids[rng.IntN(len(mids))], Arg: 1 + rng.Uint64N(1000)}
		}
		bt.Run()
		bt.End()
		bt.Reset()
		if err := bt.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	if !s.tops.All() {
		b.Fatal("the lists are not built")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, column := range map[string]int16{"column": 1, "window": int16(len(def.Columns))} {
		rows, err := s.Top(Query{Counter: def, To: schema.MaxMid}, column, 500)
		if err != nil {
			b.Fatal(err)
		}
		_, values := rows.At(499)
		q := Query{Counter: def, To: schema.MaxMid, Columns: []int16{column}, Where: []Condition{{Column: column, Op: Greater, Value: values[0]}}}
		b.Run(name, func(b *testing.B) {
			var top, find [2][]float64
			timed := func(took *[]float64, step func(bt *Batch) (bool, error)) {
				began := threadTime(b)
				if err := s.steps(step, func() bool { return true }); err != nil {
					b.Fatal(err)
				}
				*took = append(*took, float64(threadTime(b)-began)/1e3)
			}
			for range max(b.N, 9) {
				for k := range top {
					t, err := NewTop(Query{Counter: def, To: schema.MaxMid}, column, 100)
					if err != nil {
						b.Fatal(err)
					}
					if k == 0 {
						t.q.Scan()
					}
					timed(&top[k], t.Step)
					f, err := query.NewFind(q)
					if err != nil {
						b.Fatal(err)
					}
					if k == 1 {
						f.AskLists()
					}
					found := 0
					timed(&find[k], func(bt *Batch) (bool, error) {
						done, err := f.Step((*core.View)(bt))
						found += f.Rows().Len()
						return done, err
					})
					if found == 0 || found > 499 || f.Listed != (k == 1) {
						b.Fatalf("%d posts found, by a list: %t", found, f.Listed)
					}
				}
			}
			for k, how := range []string{"scan", "list"} {
				slices.Sort(top[k])
				slices.Sort(find[k])
				b.ReportMetric(top[k][len(top[k])/2], how+"-top-us")
				b.ReportMetric(find[k][len(find[k])/2], how+"-find-us")
				b.ReportMetric(find[k][len(find[k])-1], how+"-find-us-max")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
