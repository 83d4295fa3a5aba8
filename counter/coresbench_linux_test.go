// Scenario: several processors work on one store.

package counter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCores runs batches of 64 in one goroutine and in as many as there are processors, in turns of less than a
// millisecond, and reports the medians of the processor time an operation takes in either and their quotient, x: 1 is a
// store whose users do not hinder each other. control is the same quotient where each goroutine has a store of its own, so it is the
// processors' part: caches, memory and cores that they share. wall-x is how much longer a turn lasts. Turns count in which no goroutine
// had to give its processor away. Posts are any of the store's, or among the newest, which share a block. With a log
// the changes of a turn are written to it behind the turn, and that is not counted.
func BenchmarkCores(b *testing.B) {
	for _, logged := range []bool{false, true} {
		var mids []uint64
		stores := make([]*Store, 1+runtime.NumCPU()) // the shared store, and each goroutine's own
		for i := range stores {
			dir := ""
			if logged {
				dir = b.TempDir()
			}
			s, err := Open(dir, Options{SnapshotGrowth: -1})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.AlterScript(seedScript); err != nil {
				b.Fatal(err)
			}
			mids = fill(b, s, *benchItems, 1) // the same in each
			stores[i] = s
		}
		for _, kind := range []struct {
			name string
			op   OpKind
		}{{"get", OpGet}, {"incr", OpAdd}} {
			if logged && kind.op == OpGet {
				continue
			}
			for _, newest := range []int{0, 1000} {
				name := fmt.Sprintf("op=%s/log=%v/newest=%d", kind.name, logged, newest)
				from := mids
				if newest > 0 {
					from = mids[len(mids)-newest:]
				}
				b.Run(name, func(b *testing.B) { benchCores(b, stores, from, kind.op) })
			}
		}
		for _, s := range stores {
			s.Close()
		}
	}
}

func benchCores(b *testing.B, stores []*Store, mids []uint64, kind OpKind) {
	const depth, turn = 64, 64
	cores := runtime.NumCPU()
	var times, walls [3][]float64
	waited := 0.0
	for i := 0; i < b.N; {
		for which, n := range [3]int{1, cores, cores} {
			var wg sync.WaitGroup
			batches := make([]*Batch, n)
			took, lasted := make([]float64, n), make([]float64, n)
			before := mutexWait()
			var ready, preempted atomic.Int32
			for w := range n {
				wg.Go(func() {
					runtime.LockOSThread()
					var all, own unix.CPUSet // or the system has both threads on one processor for long
					_ = unix.SchedGetaffinity(0, &all)
					own.Set(w)
					_ = unix.SchedSetaffinity(0, &own)
					defer runtime.UnlockOSThread()
					defer unix.SchedSetaffinity(0, &all)
					rng := rand.New(rand.NewPCG(uint64(i), uint64(w)))
					s := stores[0]
					if which == 2 {
						s = stores[1+w]
					}
					bt := s.NewBatch()
					UseDoor(bt, w)
					for ready.Add(1); ready.Load() < int32(n); { // all begin at once
					}
					began, switches, start := threadTime(b), threadPreempted(b), time.Now()
					for range turn {
						_ = bt.Begin()
						c := bt.Schema().Counters()[0]
						bt.Reset()
						for range depth {
							op := bt.Next()
							op.Kind, op.Counter, op.Mid, op.Arg = kind, c, mids[rng.IntN(len(mids))], 1
						}
						bt.Run()
						bt.End()
					}
					took[w] = float64(threadTime(b)-began) / (turn * depth)
					lasted[w] = float64(time.Since(start)) / (turn * depth)
					preempted.Add(int32(threadPreempted(b) - switches))
					batches[w] = bt
				})
			}
			wg.Wait()
			for _, bt := range batches[:n] {
				if err := bt.Commit(); err != nil {
					b.Fatal(err)
				}
			}
			if which == 1 {
				waited += mutexWait() - before
			}
			sum := 0.0
			for _, t := range took {
				sum += t
			}
			i += n * turn * depth
			if preempted.Load() == 0 || b.N == 1 { // else they did not hinder each other all the time
				times[which] = append(times[which], sum/float64(n))
				walls[which] = append(walls[which], slices.Max(lasted))
			}
		}
	}
	median := func(list []float64) float64 {
		if len(list) == 0 {
			return math.NaN()
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	one, all := median(times[0]), median(times[1])
	b.ReportMetric(median(times[2])/one, "control")
	b.ReportMetric(median(walls[1])/median(walls[0]), "wall-x")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(one, "cpu-ns/op/1")
	b.ReportMetric(float64(len(times[1])), "turns")
	b.ReportMetric(all, fmt.Sprintf("cpu-ns/op/%d", cores))
	b.ReportMetric(all/one, "x")
	b.ReportMetric(waited*1e9/float64(len(times[1])*cores*turn*depth), "wait-ns/op")
}

// mutexWait returns the seconds that goroutines of this process have waited for locks.
func mutexWait() float64 {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}

// threadPreempted is how often this thread had to give its processor to another.
func threadPreempted(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return u.Nivcsw
}
