package counter

import (
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"sync/atomic"
	"testing"
)

// BenchmarkParallel runs batches of 64 on all processors at once: with -cpu 1,2 it tells what a second one gives, and
// how long goroutines waited for locks meanwhile (wait-ns/op).
func BenchmarkParallel(b *testing.B) {
	const depth = 64
	s := benchStore(b, Options{})
	mids := fill(b, s, *benchItems, 1)
	var seed atomic.Uint64
	for _, kind := range []struct {
		name string
		op   OpKind
	}{{"get", OpRead}, {"incr", OpAdd}} {
		b.Run(fmt.Sprintf("op=%s", kind.name), func(b *testing.B) {
			waited := mutexWait()
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(seed.Add(1), 1))
				bt := s.NewBatch()
				for more := true; more; {
					_ = bt.Begin()
					c := bt.Schema().Counters()[0]
					bt.Reset()
					n := 0
					for ; n < depth; n++ {
						if more = pb.Next(); !more {
							break
						}
						op := bt.Next()
						op.Kind, op.Counter, op.Mid, op.Arg = kind.op, c, mids[rng.IntN(len(mids))], 1
					}
					if n > 0 {
						bt.Run()
					}
					bt.End()
				}
			})
			b.ReportMetric((mutexWait()-waited)*1e9/float64(b.N), "wait-ns/op")
		})
	}
}

// mutexWait returns the seconds that goroutines of this process have waited for locks.
func mutexWait() float64 {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
