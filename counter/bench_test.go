package counter

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// The results in docs/internals/performance.md are measured with -items=10000000.
var benchItems = flag.Int("items", 1_000_000, "items in the benchmarks' stores")

const seedScript = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// stream makes ids like a dense live stream: exponential gaps with a mean of 4000.
type stream struct {
	rng *rand.Rand
	mid uint64
}

func newStream(seed uint64) *stream {
	return &stream{rand.New(rand.NewPCG(seed, 7)), 3_600_000_000_000_000}
}

func (s *stream) next() uint64 {
	s.mid += 1 + uint64(s.rng.ExpFloat64()*4000)
	return s.mid
}

// row draws repost, comment and attitude as real posts have them: 80-95 % zeros, 0.1-0.6 % above 8 bits, 0.02 % above
// 16.
func (s *stream) row() [3]uint64 {
	var r [3]uint64
	for i, zero := range [3]float64{0.90, 0.85, 0.80} {
		if s.rng.Float64() < zero {
			continue
		}
		// A power law: P(value > v) = v^-1 of the rest.
		r[i] = uint64(min(1/(1-s.rng.Float64()), 1e6))
	}
	return r
}

// together draws a row as real posts have their zeros: 86 % have nothing but.
func (s *stream) together() [3]uint64 {
	var r [3]uint64
	if s.rng.IntN(100) >= 86 {
		for i := range r {
			r[i] = uint64(min(1/(1-s.rng.Float64()), 1e6)) - 1
		}
	}
	return r
}

// fill loads n items of a stream, in batches of 64 posts, and returns their mids.
func fill(tb testing.TB, s *Store, n int, seed uint64) []uint64 {
	return fillRows(tb, s, n, seed, (*stream).row)
}

func fillRows(tb testing.TB, s *Store, n int, seed uint64, row func(*stream) [3]uint64) []uint64 {
	st := newStream(seed)
	mids := make([]uint64, n)
	b := s.NewBatch()
	for i := 0; i < n; i += 64 {
		if err := b.Begin(); err != nil {
			tb.Fatal(err)
		}
		c := b.Schema().Counter("weibo")
		b.Reset()
		for j := i; j < min(n, i+64); j++ {
			mids[j] = st.next()
			for col, v := range row(st) {
				if v != 0 || col == 0 {
					b.Add(Op{Kind: OpSet, Counter: c, Column: int16(col), Mid: mids[j], Arg: v})
				}
			}
		}
		b.Run()
		for j := range b.Len() {
			if err := b.Op(j).Err; err != nil { // such as a log that hangs, on a busy machine
				tb.Fatal(err)
			}
		}
		b.End()
	}
	return mids
}

func benchStore(tb testing.TB, opts Options) *Store {
	s, err := Open("", opts)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.AlterScript(seedScript); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// rss is the resident memory of this process in bytes (Linux; 0 elsewhere).
func rss() int64 {
	debug.FreeOSMemory()
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident int64
	fmt.Fscan(strings.NewReader(string(text)), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// BenchmarkMemory reports resident bytes an item, everything included, over the empty process.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		before := rss()
		s := benchStore(b, Options{})
		began := time.Now()
		fill(b, s, *benchItems, 1)
		took := time.Since(began)
		bt := s.NewBatch()
		_ = bt.Begin()
		var slots, items, over, blocks int
		NewReader(bt).Blocks(func(i BlockInfo) bool {
			slots, items, over, blocks = slots+i.Slots, items+i.Items, over+i.Overflows, blocks+1
			return true
		})
		bt.End()
		b.ReportMetric(float64(rss()-before)/float64(*benchItems), "B/item")
		b.ReportMetric(float64(s.Admin().Memory())/float64(*benchItems), "arenaB/item")
		b.ReportMetric(float64(items)/float64(slots), "load")
		b.ReportMetric(float64(over)/float64(items), "overflows/item")
		b.ReportMetric(float64(blocks), "blocks")
		b.ReportMetric(float64(*benchItems)/took.Seconds()/1e6, "Mitems/s")
		s.Close()
	}
}

// BenchmarkGet reads all three columns of random items: a Go map, one by one, and in pages.
func BenchmarkGet(b *testing.B) {
	s := benchStore(b, Options{})
	mids := fill(b, s, *benchItems, 1)
	m := make(map[uint64][3]uint32, len(mids))
	for _, mid := range mids {
		m[mid] = [3]uint32{1, 2, 3}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	order := make([]uint64, 1<<20)
	for i := range order {
		order[i] = mids[rng.IntN(len(mids))]
	}
	var sink uint32
	b.Run("impl=map", func(b *testing.B) {
		for i := range b.N {
			v := m[order[i&(1<<20-1)]]
			sink += v[0] + v[1] + v[2]
		}
	})
	m = nil
	runtime.GC()
	for _, page := range []int{1, 20, 64} {
		b.Run(fmt.Sprintf("impl=counter/page=%d", page), func(b *testing.B) {
			bt := s.NewBatch()
			b.ReportAllocs()
			for i := 0; i < b.N; i += page {
				_ = bt.Begin()
				c := bt.Schema().Counters()[0]
				bt.Reset()
				for j := range page {
					op := bt.Next()
					op.Kind, op.Counter, op.Mid = OpRead, c, order[(i+j)&(1<<20-1)]
				}
				bt.Run()
				bt.End()
				sink += uint32(bt.Row(bt.Op(0))[0])
			}
		})
	}
	_ = sink
}

// BenchmarkIncr adds one to random counters of existing items.
func BenchmarkIncr(b *testing.B) {
	s := benchStore(b, Options{})
	mids := fill(b, s, *benchItems, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			bt := s.NewBatch()
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				_ = bt.Begin()
				c := bt.Schema().Counters()[0]
				bt.Reset()
				for range depth {
					op := bt.Next()
					op.Kind, op.Counter, op.Mid, op.Arg = OpAdd, c, mids[rng.IntN(len(mids))], 1
				}
				bt.Run()
				bt.End()
			}
		})
	}
}

// BenchmarkInsert inserts one by one, in several orders, and reports how long the slowest took.
func BenchmarkInsert(b *testing.B) {
	for _, order := range []string{"rising", "nearly", "random", "falling"} {
		b.Run("order="+order, func(b *testing.B) {
			for range b.N {
				s := benchStore(b, Options{})
				mids := make([]uint64, *benchItems)
				st := newStream(1)
				for i := range mids {
					mids[i] = st.next()
				}
				rng := rand.New(rand.NewPCG(3, 3))
				switch order {
				case "nearly": // 73 % late, mostly by a little, 0.5 % by a lot
					for i := range mids {
						j := i + rng.IntN(16)
						if rng.IntN(200) == 0 {
							j = i + rng.IntN(200000)
						}
						j = min(j, len(mids)-1)
						mids[i], mids[j] = mids[j], mids[i]
					}
				case "random":
					rng.Shuffle(len(mids), func(i, j int) { mids[i], mids[j] = mids[j], mids[i] })
				case "falling":
					slices.Reverse(mids)
				}
				took := make([]uint32, 0, len(mids))
				bt := s.NewBatch()
				for _, mid := range mids {
					began := time.Now()
					_ = bt.Begin()
					bt.Reset()
					bt.Add(Op{Kind: OpAdd, Counter: bt.Schema().Counters()[0], Mid: mid, Arg: 1})
					bt.Run()
					bt.End()
					took = append(took, uint32(time.Since(began)))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
				b.ReportMetric(float64(took[len(took)*999/1000])/1e3, "p99.9-us")
				b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
				b.ReportMetric(float64(s.Admin().Memory())/float64(len(mids)), "B/item")
			}
		})
	}
}
